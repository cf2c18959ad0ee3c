"""Routes with access rules. The server does not start if a route has no rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from redrive.errors import InvalidValueError
from redrive.server.access_control import AccessControl, AccessRule
from redrive.server.problem import DUPLICATE_KEY
from redrive.server.site import Site

F = TypeVar("F", bound=Callable[..., Any])
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

VERSION = "1"


class RouteEntry(NamedTuple):
    method: str
    path: str
    endpoint: Callable[..., Any]
    rule: AccessRule
    options: dict[str, Any]


class Routes:
    """The routes of one resource, collected by decorators: @routes.get("/{id}", may(Permission.READ)).

    `returns` is the schema of the response for the OpenAPI document; other options are FastAPI's.
    """

    def __init__(self, noun: str, prefix: str, aliases: Sequence[str] = ()) -> None:
        """`aliases` are further prefixes of the same routes, which the OpenAPI document omits."""
        self.noun = noun
        self.prefix = prefix
        self.aliases = tuple(aliases)
        self.entries: list[RouteEntry] = []

    def get(self, path: str, rule: AccessRule, **options: Any) -> Callable[[F], F]:
        return self._add("GET", path, rule, options)

    def head(self, path: str, rule: AccessRule, **options: Any) -> Callable[[F], F]:
        return self._add("HEAD", path, rule, {**options, "include_in_schema": False})

    def post(self, path: str, rule: AccessRule, **options: Any) -> Callable[[F], F]:
        return self._add("POST", path, rule, options)

    def put(self, path: str, rule: AccessRule, **options: Any) -> Callable[[F], F]:
        return self._add("PUT", path, rule, options)

    def patch(self, path: str, rule: AccessRule, **options: Any) -> Callable[[F], F]:
        return self._add("PATCH", path, rule, options)

    def delete(self, path: str, rule: AccessRule, **options: Any) -> Callable[[F], F]:
        return self._add("DELETE", path, rule, options)

    def _add(self, method: str, path: str, rule: AccessRule, options: dict[str, Any]) -> Callable[[F], F]:
        def add(endpoint: F) -> F:
            self.entries.append(RouteEntry(method, path, endpoint, rule, options))
            return endpoint

        return add

    @cache  # noqa: B019 — one instance per resource
    def build(self) -> tuple[GuardedRoute, ...]:
        """Build the routes. All applications share them, because the request names its application."""
        prefixes = (self.prefix, *self.aliases)
        return tuple(self._build(entry, prefix) for entry in self.entries for prefix in prefixes)

    def _build(self, entry: RouteEntry, prefix: str) -> GuardedRoute:
        documented = prefix == self.prefix
        options = {
            "include_in_schema": documented,
            "tags": [self.noun],
            "summary": (entry.endpoint.__doc__ or "").partition("\n")[0].rstrip(".") or None,
            "operation_id": f"{self.noun}.{entry.endpoint.__name__.strip('_')}" if documented else None,
            "methods": [entry.method],
            "response_model": None,
            **entry.options,
        }
        if model := options.pop("returns", None):
            options["responses"] = {options.get("status_code", 200): {"model": model}}
        return GuardedRoute(prefix + entry.path, entry.endpoint, entry.rule, **options)


class StrictRequest(Request):
    """A request whose JSON body names no key twice: readers disagree about which of the values counts."""

    async def json(self) -> Any:
        body = await self.body()
        return json.loads(body, object_pairs_hook=partial(_unique, body))


def _unique(body: bytes, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise json.JSONDecodeError(DUPLICATE_KEY, body.decode("utf-8", "replace"), 0)
    return members


class GuardedRoute(APIRoute):
    """A route that enforces its access rule."""

    def __init__(self, path: str, endpoint: Callable[..., Any], rule: AccessRule, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.rule = rule
        self.app = AccessControl(rule, _parameters(self), self.app)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return handle


class Dispatcher:
    """Matches a request only against routes with the same beginning of the path, instead of all routes.

    If none matches, the router responds with 404 or 405.
    """

    def __init__(self, router: APIRouter) -> None:
        self._router = router
        self._by_beginning = {
            beginning: [route for route in router.routes if _may_begin(route, beginning)]
            for beginning in {_beginning(route.path) for route in router.routes if isinstance(route, Route)}
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope.get("root_path"):
            for route in self._by_beginning.get(_beginning(scope["path"]), ()):
                match, child_scope = route.matches(scope)
                if match is Match.FULL:
                    scope["router"] = self._router
                    scope.update(child_scope)
                    await route.handle(scope, receive, send)
                    return
        await self._router.app(scope, receive, send)


def _beginning(path: str) -> str:
    """Return the first three parts of a path, such as /api/v1/runs."""
    return "/".join(path.split("/", 4)[:4])


def _may_begin(route: BaseRoute, beginning: str) -> bool:
    own = _beginning(route.path) if isinstance(route, Route) else "{"
    return own == beginning or "{" in own


def _parameters(route: APIRoute) -> frozenset[str]:
    """Return the names of its query parameters."""
    names: set[str] = set()
    for field in route.dependant.query_params:
        fields = getattr(field.field_info.annotation, "model_fields", None)
        names |= (
            {field.alias}
            if fields is None
            else {parameter.alias or name for name, parameter in fields.items()}
        )
    return frozenset(names)


def methods_of(routes: Sequence[BaseRoute], scope: Scope) -> list[str]:
    """Return the methods of all routes that match a path."""
    here = [route for route in routes if route.matches(scope)[0] is not Match.NONE]
    return sorted({method for route in here if isinstance(route, Route) for method in route.methods or ()})


def refuse_without_rule(routes: Sequence[BaseRoute]) -> None:
    """Reject routes without an access rule."""
    for route in routes:
        if not isinstance(route, GuardedRoute) or not isinstance(getattr(route, "rule", None), AccessRule):
            path = route.path if isinstance(route, Route) else repr(route)
            raise InvalidValueError(
                f"the route {path} has no access rule; add it with redrive.server.route.Routes"
            )


def build_api(
    site: Site, nouns: Iterable[Routes], on_error: Callable[..., Any], lifespan: Lifespan | None = None
) -> FastAPI:
    """Build an application with these routes. `on_error` replaces FastAPI's own error handlers."""
    api = FastAPI(
        title="Redrive",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers={RequestValidationError: on_error, HTTPException: on_error},
    )
    api.state.site = site
    for noun in nouns:
        api.router.routes.extend(noun.build())
    refuse_without_rule(api.router.routes)
    api.router.middleware_stack = Dispatcher(api.router)
    return api
