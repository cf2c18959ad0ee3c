"""Static files: the scripts, styles and typeface of all pages, at an address that changes when they do.

They are the same for every caller, so they are compressed once, and browsers may cache them forever.
"""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Annotated, NamedTuple

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from redrive.server.access_control import UNCOUNTED
from redrive.server.problem import ProblemError
from redrive.server.route import Routes

routes = Routes("pages.static", "/app")

FOREVER = "public, max-age=31536000, immutable"

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
    "woff2": "font/woff2",
}
STYLES = "app.css"
_FIRST_STYLES = ("tokens.css", "base.css", "parts.css")
_LICENCES = ("htmx-licence.txt", "inter-licence.txt")

Version = Annotated[str, Path(max_length=40)]
Name = Annotated[str, Path(max_length=80)]


class StaticFile(NamedTuple):
    media_type: str
    content: bytes
    compressed: bytes


@routes.get("/static/{version}/{name}", UNCOUNTED, include_in_schema=False)
async def static(request: Request, version: Version, name: Name) -> Response:
    found = static_files().get(name)
    if found is None:
        raise ProblemError(404, "no_route", "this file doesn't exist")
    headers = {"Cache-Control": FOREVER if version == static_version() else "no-cache"}
    headers["Vary"] = "Accept-Encoding"
    if takes_gzip(request):
        headers["Content-Encoding"] = "gzip"
        return Response(found.compressed, 200, headers, found.media_type)
    return Response(found.content, 200, headers, found.media_type)


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the files by name. All style sheets become one file: tokens first, pages last."""
    found = {file.name: file.read_bytes() for file in (files("redrive.server.admin") / "static").iterdir()}
    styles = {name: found.pop(name) for name in sorted(found) if name.endswith(".css")}
    for name in _LICENCES:
        del found[name]
    in_order = (*_FIRST_STYLES, *(name for name in styles if name not in _FIRST_STYLES))
    found[STYLES] = b"\n".join(styles[name] for name in in_order)
    return {
        name: StaticFile(TYPES[name.rpartition(".")[2]], content, gzip.compress(content, 9, mtime=0))
        for name, content in found.items()
    }


@cache
def static_version() -> str:
    """Return one version for all files, because scripts import each other."""
    digest = sha256()
    for name, file in sorted(static_files().items()):
        digest.update(name.encode() + b"\0" + file.content)
    return digest.hexdigest()[:12]


def static_path(name: str) -> str:
    return f"/app/static/{static_version()}/{name}"


def takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")
