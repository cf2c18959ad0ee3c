"""The API reference: the OpenAPI document, and the same content as a page without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from html import escape
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import Response

from redrive.server.access_control import PUBLIC, AccessRule
from redrive.server.answer import answer
from redrive.server.problem import MEDIA_TYPE, FieldProblem, Problem
from redrive.server.route import GuardedRoute, Routes

DESCRIPTION = (
    "Manage runs, dead letters and replays. Send an API key as `Authorization: Bearer rdk_…`. Lists are "
    "paginated with `cursor`. Every problem has a `code`, a `hint` and the `request_id`."
)
SCHEMES = {
    "key": {"type": "http", "scheme": "bearer", "bearerFormat": "rdk_…"},
    "session": {"type": "apiKey", "in": "cookie", "name": "redrive_session"},
}
IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes a request safe to repeat: requests with the same key get the stored response.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}

routes = Routes("reference", "/api")

POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'"


@routes.get("/openapi.json", PUBLIC, include_in_schema=False)
async def openapi(request: Request) -> Response:
    return answer(document(request.app))


@routes.get("/docs", PUBLIC, include_in_schema=False)
async def docs(request: Request) -> Response:
    headers = {"Content-Security-Policy": POLICY}
    return Response(_page(document(request.app)), 200, headers, "text/html; charset=utf-8")


@routes.get("/docs.css", PUBLIC, include_in_schema=False)
async def style() -> Response:
    return Response(_style(), 200, {"Cache-Control": "max-age=3600"}, "text/css; charset=utf-8")


@cache
def _style() -> bytes:
    return (files("redrive.server") / "static" / "reference.css").read_bytes()


@lru_cache(maxsize=8)
def document(api: FastAPI) -> dict[str, Any]:
    """Return FastAPI's OpenAPI document with the access rules added. Cached: callers must not change it."""
    routes = [route for route in api.router.routes if isinstance(route, GuardedRoute)]
    made = get_openapi(title=api.title, version=api.version, description=DESCRIPTION, routes=routes)
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for shape in (Problem, FieldProblem):
        schemas[shape.__name__] = _schema(shape)
    components["securitySchemes"] = SCHEMES
    for route in routes:
        if route.include_in_schema:
            for method in route.methods or ():
                _complete(made["paths"][route.path_format][method.lower()], method, route.rule)
    return made


def _schema(shape: Any) -> dict[str, Any]:
    schema: dict[str, Any] = shape.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return schema


def _complete(operation: dict[str, Any], method: str, rule: AccessRule) -> None:
    operation["responses"].pop("422", None)  # as FastAPI itself would answer
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    operation["responses"]["default"] = {"description": "A problem", "content": {MEDIA_TYPE: problem}}
    operation["security"] = [] if rule.is_public else [{"key": []}, {"session": []}]
    operation["x-permission"] = rule.permission and rule.permission.value
    if rule.home:
        operation["x-organization"] = "default"
    if method != "GET" and (rule.repeatable or rule.own_key):
        operation.setdefault("parameters", []).append(IDEMPOTENCY)


# The page


def _page(document: dict[str, Any]) -> str:
    tags: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append(_operation(path, method, operation, document))
    links = " ".join(f'<a href="#{_slug(tag)}">{_title(tag)}</a>' for tag in tags)
    sections = "".join(
        f'<h2 id="{_slug(tag)}">{_title(tag)}</h2>{"".join(found)}' for tag, found in tags.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Redrive HTTP API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/api/docs.css"></head><body><main><h1>Redrive HTTP API</h1>'
        f"<p>{_marked(document['info']['description'])}</p>"
        '<p>OpenAPI document: <a href="/api/openapi.json">openapi.json</a></p>'
        f"<nav>{links}</nav>{sections}</main></body></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    parts = "".join(_parts(operation, document))
    needs = operation.get("x-permission") or (
        "no authentication" if not operation["security"] else "authentication"
    )
    home = " in the organization <code>default</code>" if operation.get("x-organization") else ""
    summary = escape(operation.get("description") or operation["summary"])
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
        f'<span class="soft">{summary}</span></summary><p>Requires <code>{escape(needs)}</code>{home}.</p>'
        f"{parts}</details>"
    )


def _parts(operation: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    if rows := "".join(_parameter(parameter) for parameter in operation.get("parameters", [])):
        yield f"<table><tr><th>Parameter</th><th>In</th><th>Description</th></tr>{rows}</table>"
    if body := _content(operation.get("requestBody", {})):
        yield f"<p>Request body</p>{_example(body, document)}"
    for status, response in operation["responses"].items():
        if status != "default" and (schema := _content(response)):
            yield f"<p>Response {escape(status)}</p>{_example(schema, document)}"


def _parameter(parameter: dict[str, Any]) -> str:
    text = parameter.get("description") or _kind(parameter.get("schema", {}), {}, 0)
    name, place = escape(parameter["name"]), parameter["in"]
    required = " (required)" if parameter.get("required") else ""
    return f"<tr><td><code>{name}</code>{required}</td><td>{place}</td><td>{escape(str(text))}</td></tr>"


def _content(holder: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = holder.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def _example(schema: dict[str, Any], document: dict[str, Any]) -> str:
    return f"<pre>{escape(_kind(schema, document.get('components', {}).get('schemas', {}), 0))}</pre>"


def _kind(schema: dict[str, Any], known: dict[str, Any], depth: int) -> str:
    """Return a schema in a short notation for people."""
    if "$ref" in schema:
        schema = known.get(schema["$ref"].rsplit("/", 1)[-1], {})
    if "anyOf" in schema:
        return " | ".join(_kind(option, known, depth) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " | ".join(repr(value) for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}), known, depth)}]"
    if "properties" in schema and depth < 4:
        inner = "".join(
            f"{'  ' * (depth + 1)}{name}: {_kind(field, known, depth + 1)}\n"
            for name, field in schema["properties"].items()
        )
        return "{\n" + inner + "  " * depth + "}"
    return str(schema.get("type", "any JSON"))


def _marked(text: str) -> str:
    pieces = text.split("`")
    return "".join(
        f"<code>{escape(piece)}</code>" if index % 2 else escape(piece) for index, piece in enumerate(pieces)
    )


def _slug(tag: str) -> str:
    return tag.replace(" ", "-").replace("_", "-")


def _title(tag: str) -> str:
    return escape(tag.replace("_", " "))
