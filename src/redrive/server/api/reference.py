"""The reference of the API: the OpenAPI document, and the same as a page without scripts."""

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
    "Failed work, and everything else that Redrive keeps. Send an API key as `Authorization: Bearer rdk_…`. "
    "Every list is paged by `cursor`; every problem has a `code`, a `hint` and the `request_id`."
)
SCHEMES = {
    "key": {"type": "http", "scheme": "bearer", "bearerFormat": "rdk_…"},
    "session": {"type": "apiKey", "in": "cookie", "name": "redrive_session"},
}
IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key with the same request is answered once; the answer is kept and given again.",
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
    """The OpenAPI document, made once: FastAPI's, with what the rules of the routes say. Do not change it."""
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
    links = " ".join(f'<a href="#{_slug(tag)}">{_spoken(tag)}</a>' for tag in tags)
    sections = "".join(
        f'<h2 id="{_slug(tag)}">{_spoken(tag)}</h2>{"".join(found)}' for tag, found in tags.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Redrive: the HTTP API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/api/docs.css"></head><body><main><h1>The HTTP API</h1>'
        f"<p>{_marked(document['info']['description'])}</p>"
        '<p>For programs: <a href="/api/openapi.json">openapi.json</a></p>'
        f"<nav>{links}</nav>{sections}</main></body></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    parts = "".join(_parts(operation, document))
    needs = operation.get("x-permission") or ("no sign-in" if not operation["security"] else "a sign-in")
    home = ", from the organization <code>default</code>" if operation.get("x-organization") else ""
    summary = escape(operation.get("description") or operation["summary"])
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
        f'<span class="soft">{summary}</span></summary><p>Needs <code>{escape(needs)}</code>{home}.</p>'
        f"{parts}</details>"
    )


def _parts(operation: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    if rows := "".join(_parameter(each) for each in operation.get("parameters", [])):
        yield f"<table><tr><th>parameter</th><th>in</th><th>what it is</th></tr>{rows}</table>"
    if body := _content(operation.get("requestBody", {})):
        yield f"<p>Body</p>{_example(body, document)}"
    for status, response in operation["responses"].items():
        if status != "default" and (schema := _content(response)):
            yield f"<p>{escape(status)}</p>{_example(schema, document)}"


def _parameter(each: dict[str, Any]) -> str:
    said = each.get("description") or _kind(each.get("schema", {}), {}, 0)
    need = " (required)" if each.get("required") else ""
    name = escape(each["name"])
    return f"<tr><td><code>{name}</code>{need}</td><td>{each['in']}</td><td>{escape(str(said))}</td></tr>"


def _content(holder: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = holder.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def _example(schema: dict[str, Any], document: dict[str, Any]) -> str:
    return f"<pre>{escape(_kind(schema, document.get('components', {}).get('schemas', {}), 0))}</pre>"


def _kind(schema: dict[str, Any], known: dict[str, Any], depth: int) -> str:
    """A schema as somebody would write it down."""
    if "$ref" in schema:
        schema = known.get(schema["$ref"].rsplit("/", 1)[-1], {})
    if "anyOf" in schema:
        return " | ".join(_kind(each, known, depth) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " | ".join(repr(each) for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}), known, depth)}]"
    if "properties" in schema and depth < 4:
        inner = "".join(
            f"{'  ' * (depth + 1)}{name}: {_kind(each, known, depth + 1)}\n"
            for name, each in schema["properties"].items()
        )
        return "{\n" + inner + "  " * depth + "}"
    return str(schema.get("type", "any JSON"))


def _marked(text: str) -> str:
    pieces = text.split("`")
    return "".join(f"<code>{escape(p)}</code>" if i % 2 else escape(p) for i, p in enumerate(pieces))


def _slug(tag: str) -> str:
    return tag.replace(" ", "-").replace("_", "-")


def _spoken(tag: str) -> str:
    return escape(tag.replace("_", " "))
