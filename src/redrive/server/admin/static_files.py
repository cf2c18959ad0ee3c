"""The files that all pages share: scripts and styles, under an address that changes when they do.

They are the same for everybody, so they are compressed once, and kept by browsers for as long as they like.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request

TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
STYLES = "app.css"
_FIRST_STYLES = ("tokens.css", "base.css", "parts.css")
_LICENCE = "htmx-licence.txt"


class StaticFile(NamedTuple):
    media_type: str
    content: bytes
    compressed: bytes


@cache
def static_files() -> dict[str, StaticFile]:
    """By name. All style sheets are one file: tokens first, pages last."""
    found = {each.name: each.read_bytes() for each in (files("redrive.server.admin") / "static").iterdir()}
    styles = {name: found.pop(name) for name in sorted(found) if name.endswith(".css")}
    found.pop(_LICENCE, None)
    found[STYLES] = b"\n".join(styles[name] for name in _in_order(styles))
    return {name: _file(name, content) for name, content in found.items()}


@cache
def static_version() -> str:
    """Of all of them together, as modules import each other."""
    digest = sha256()
    for name, each in sorted(static_files().items()):
        digest.update(name.encode() + b"\0" + each.content)
    return digest.hexdigest()[:12]


def static_path(name: str) -> str:
    return f"/app/static/{static_version()}/{name}"


def takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _in_order(names: dict[str, bytes]) -> Iterator[str]:
    yield from _FIRST_STYLES
    yield from (name for name in names if name not in _FIRST_STYLES)


def _file(name: str, content: bytes) -> StaticFile:
    kind = TYPES[name.rpartition(".")[2]]
    return StaticFile(f"{kind}; charset=utf-8", content, gzip.compress(content, 9, mtime=0))
