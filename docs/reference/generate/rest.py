"""Generates the page of the HTTP API from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from docs.reference.generate.page import NOTE, cell, code, page, sentence, table

from redrive import Redrive
from redrive.server.api.reference import DESCRIPTION, document
from redrive.server.app import create_app

Json = dict[str, Any]
TITLES = {"oidc": "OpenID", "forward": "Trusted proxies", "workflow_dlq": "Workflow DLQ"}
HEAD = ("name", "in", "type", "meaning")


def rest() -> str:
    made = document(create_app(Redrive("sqlite://:memory:")))
    schemas = made["components"]["schemas"]
    parts = [
        "# The HTTP API",
        NOTE,
        DESCRIPTION,
        "A running server serves this reference as an OpenAPI document at `/api/openapi.json` and as a page "
        "at `/api/docs`. For an introduction, see [the HTTP API](../guides/http-api.md). *Requires* is the "
        "[permission](../guides/roles-and-keys.md) that the caller needs.",
    ]
    for tag, operations in _by_tag(made["paths"]).items():
        parts.append(f"## {TITLES.get(tag, tag.replace('_', ' ').capitalize())}")
        for method, path, operation in operations:
            parts += _described(method, path, operation, schemas)
    return page(*parts)


def _by_tag(paths: Json) -> dict[str, list[tuple[str, str, Json]]]:
    found: dict[str, list[tuple[str, str, Json]]] = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            found.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return found


def _described(method: str, path: str, operation: Json, schemas: Json) -> list[str]:
    permission = operation.get("x-permission")
    said = sentence(cell(operation.get("description") or operation["summary"]))
    parts = [f"### {method} {path}", said + (f" Requires: {code(permission)}." if permission else "")]
    rows = [
        (code(each["name"]), each["in"], _kind(each["schema"], schemas), cell(each.get("description", "")))
        for each in operation.get("parameters", ())
    ]
    rows += _body(operation.get("requestBody"), schemas)
    if rows:
        width = 4 if any(row[3] for row in rows) else 3
        parts.append(table(HEAD[:width], [row[:width] for row in rows]))
    parts.append(_answers(operation["responses"], schemas))
    return parts


def _body(body: Json | None, schemas: Json) -> Iterable[tuple[str, str, str, str]]:
    if body is None:
        return
    for content in body["content"].values():
        schema = _found(content["schema"], schemas)
        required = schema.get("required", ())
        for name, field in schema.get("properties", {}).items():
            kind = _kind(field, schemas) + ("" if name in required else _default(field))
            yield (
                code(name),
                "body" if name in required else "body, optional",
                kind,
                cell(field.get("description", "")),
            )


def _default(field: Json) -> str:
    return f", {code(field['default'])}" if field.get("default") not in (None, "") else ""


def _found(schema: Json, schemas: Json) -> Json:
    if "anyOf" in schema:
        return next((_found(each, schemas) for each in schema["anyOf"] if "$ref" in each), schema)
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Json = schemas[name] if name else schema
    return found


def _kind(schema: Json, schemas: Json) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(each, schemas) for each in schema["anyOf"] if each.get("type") != "null")
    found = _found(schema, schemas)
    if "enum" in found or "const" in found:
        return ", ".join(code(each) for each in found.get("enum") or [found["const"]])
    if found.get("type") == "array":
        return f"list of {_kind(found.get('items', {}), schemas) or 'values'}"
    bounds = [found.get(key) for key in ("minimum", "maximum")]
    span = f", {bounds[0]}–{bounds[1]}" if None not in bounds else ""
    return str(found.get("type", "any JSON")) + span


def _answers(responses: Json, schemas: Json) -> str:
    for status, answer in responses.items():
        if status == "default":
            continue
        schema: Json = next((each.get("schema", {}) for each in answer.get("content", {}).values()), {})
        fields = _found(schema, schemas).get("properties", {})
        listed = ", ".join(code(name) for name in fields)
        return f"Returns {code(status)}" + (f": {listed}." if listed else ".")
    return ""
