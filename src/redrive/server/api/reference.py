"""What the API offers, for programs and for people."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from redrive.server.answer import answer
from redrive.server.document import document
from redrive.server.reference import reference
from redrive.server.route import Routes
from redrive.server.rule import PUBLIC

routes = Routes("reference", "/api")

_POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'"


@routes.get("/openapi.json", PUBLIC, include_in_schema=False)
async def openapi(request: Request) -> Response:
    return answer(document(request.app))


@routes.get("/docs", PUBLIC, include_in_schema=False)
async def docs(request: Request) -> Response:
    headers = {"Content-Security-Policy": _POLICY}
    return Response(reference(document(request.app)), 200, headers, "text/html; charset=utf-8")


@routes.get("/docs.css", PUBLIC, include_in_schema=False)
async def style() -> Response:
    return Response(_style(), 200, {"Cache-Control": "max-age=3600"}, "text/css; charset=utf-8")


@cache
def _style() -> bytes:
    return (files("redrive.server") / "static" / "reference.css").read_bytes()
