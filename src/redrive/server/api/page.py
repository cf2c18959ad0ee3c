"""The page to sign in at. It holds nothing that is not for everybody."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redrive.server.route import Routes
from redrive.server.rule import PUBLIC
from redrive.server.site import Site, site_of

routes = Routes("page", "/app")
home = Routes("home", "")

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_OTHER_WAYS = b"<!-- other ways to sign in -->"
_TYPES = {"css": "text/css", "js": "text/javascript"}


@home.get("/", PUBLIC, include_in_schema=False)
async def arrive() -> Response:
    return RedirectResponse("/app/sign-in", 303)


@routes.get("/sign-in", PUBLIC, include_in_schema=False)
async def sign_in(request: Request) -> Response:
    content = _content("sign-in.html").replace(_OTHER_WAYS, _other_ways(site_of(request.scope)))
    headers = {"Content-Security-Policy": _POLICY}
    return Response(content, 200, headers, "text/html; charset=utf-8")


@routes.get("/static/{name}", PUBLIC, include_in_schema=False)
async def static(name: Literal["sign-in.css", "sign-in.js"]) -> Response:
    return _file(name, {"Cache-Control": "max-age=3600"})


def _other_ways(site: Site) -> bytes:
    ways = [
        ("oidc", "Sign in with your provider", site.oidc is not None),
        ("forward", "Go on as you are signed in already", site.doorman.proxies.sign_in),
    ]
    links = (f'<p><a href="/api/v1/session/{path}">{text}</a></p>' for path, text, is_open in ways if is_open)
    return "".join(links).encode()


def _file(name: str, headers: dict[str, str]) -> Response:
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(_content(name), 200, headers, f"{kind}; charset=utf-8")


@cache
def _content(name: str) -> bytes:
    return (files("redrive.server") / "static" / name).read_bytes()
