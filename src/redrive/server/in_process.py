"""The API in process, for local operators: no port, no credential, no limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from redrive.app import Redrive
from redrive.model.caller import Caller
from redrive.parts import parts_of
from redrive.policy.access import Principal, program
from redrive.server.api import NOUNS
from redrive.server.authenticator import AuthenticatedCaller, Authenticator
from redrive.server.limits import RequestLimits
from redrive.server.problem import problem_of
from redrive.server.route import build_api
from redrive.server.site import Site

Scope = dict[str, Any]


class InProcessResponse(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class InProcess:
    """Acts in an organization under a name. Errors are raised unchanged, problems as ProblemError."""

    def __init__(self, app: Redrive, org: str, name: str) -> None:
        self.app = app
        self._site = Site(
            app,
            authenticator=_OperatorAuthenticator(app, program(Caller(org, name))),
            limits=_Unlimited(parts_of(app).settings, parts_of(app).clock.monotonic),
        )
        self._apis: dict[str, FastAPI] = {}

    async def ask(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> InProcessResponse:
        """`path` is percent-encoded, as in an address."""
        scope = self._scope(method, path, query, {**headers, "content-length": str(len(body))})
        response = InProcessResponse(0, {}, b"")

        async def receive() -> Scope:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Scope) -> None:
            nonlocal response
            if message["type"] == "http.response.start":
                given = {name.decode().lower(): value.decode() for name, value in message["headers"]}
                response = InProcessResponse(message["status"], given, b"")
            elif response.status < 500:
                response = response._replace(body=response.body + message.get("body", b""))

        try:
            await self._api(path)(scope, receive, send)  # type: ignore[arg-type]  # plain dicts
        except (RequestValidationError, HTTPException) as error:
            raise problem_of(error) or error from None
        return response

    def _api(self, path: str) -> FastAPI:
        """Build only the routes with this prefix: building all takes half the time of a command."""
        nouns = [noun for noun in NOUNS if path.startswith(noun.prefix)]
        key = " ".join(noun.noun for noun in nouns)
        if key not in self._apis:
            self._apis[key] = build_api(self._site, nouns, _reraise)
        return self._apis[key]

    def _scope(self, method: str, path: str, query: str, headers: Mapping[str, str]) -> Scope:
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 0),
            "server": ("localhost", 0),
            "state": {"request_id": parts_of(self.app).ids.new()},
        }


class _OperatorAuthenticator(Authenticator):
    """Authenticates every request as the operator."""

    def __init__(self, app: Redrive, principal: Principal) -> None:
        super().__init__(app)
        self._operator = AuthenticatedCaller(principal, None, float("inf"))

    async def authenticate(self, request: Request) -> AuthenticatedCaller | None:
        return self._operator


class _Unlimited(RequestLimits):
    def admit(self, principal: Principal) -> None:
        """No limit."""


async def _reraise(request: Request, error: Exception) -> NoReturn:
    raise error
