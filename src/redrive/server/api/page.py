"""The page to sign in at. It holds nothing that is not for everybody."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

from starlette.responses import Response

from redrive.server.route import Routes
from redrive.server.rule import PUBLIC

routes = Routes("page", "/app")

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


@routes.get("/sign-in", PUBLIC, include_in_schema=False)
async def sign_in() -> Response:
    return _file("sign-in.html", {"Content-Security-Policy": _POLICY})


@routes.get("/static/{name}", PUBLIC, include_in_schema=False)
async def static(name: Literal["sign-in.css", "sign-in.js"]) -> Response:
    return _file(name, {"Cache-Control": "max-age=3600"})


def _file(name: str, headers: dict[str, str]) -> Response:
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(_content(name), 200, headers, f"{kind}; charset=utf-8")


@cache
def _content(name: str) -> bytes:
    return (files("redrive.server") / "static" / name).read_bytes()
