"""The OpenAPI document: what FastAPI finds out about the routes, and what only their rules know."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from redrive.server.api.shape.problem import FieldProblem, Problem
from redrive.server.problem import MEDIA_TYPE
from redrive.server.route import GuardedRoute
from redrive.server.rule import Rule

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


@lru_cache(maxsize=8)
def document(api: FastAPI) -> dict[str, Any]:
    """Made once; whoever asks for it must not change it."""
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


def _complete(operation: dict[str, Any], method: str, rule: Rule) -> None:
    operation["responses"].pop("422", None)  # as FastAPI itself would answer
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    operation["responses"]["default"] = {"description": "A problem", "content": {MEDIA_TYPE: problem}}
    operation["security"] = [] if rule.is_public else [{"key": []}, {"session": []}]
    operation["x-permission"] = rule.permission and rule.permission.value
    if rule.home:
        operation["x-organization"] = "default"
    if method != "GET" and (rule.repeatable or rule.own_key):
        operation.setdefault("parameters", []).append(IDEMPOTENCY)
