"""The context of an authenticated request: the caller, and services that act in the caller's organization."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import Depends
from starlette.requests import Request

from redrive.app import Redrive
from redrive.engine.breakers import Breakers
from redrive.engine.id_lookup import IdLookup
from redrive.engine.queues import Queues, Workers
from redrive.engine.runs import Runs
from redrive.events.service import Events
from redrive.events.streams import Streams
from redrive.failures.service import Failures
from redrive.identity.members import Members
from redrive.model.caller import Caller
from redrive.parts import parts_of
from redrive.policy.access import Principal
from redrive.server.problem import ProblemError
from redrive.wiring import Parts


class RequestContext(NamedTuple):
    """`csrf` is the CSRF token of a browser session; None for keys."""

    app: Redrive
    principal: Principal
    csrf: str | None = None

    @property
    def org(self) -> str:
        return self.principal.org

    @property
    def caller(self) -> Caller:
        return self.principal.caller

    def require_person(self) -> None:
        """Reject API keys, which have no session and no membership."""
        if self.principal.user_id is None:
            raise ProblemError(
                409,
                "not_a_session",
                "API keys can't use this; it needs a signed-in user",
                hint="sign in with a password, a link or single sign-on",
            )

    @property
    def parts(self) -> Parts:
        return parts_of(self.app)

    @property
    def ids(self) -> IdLookup:
        return IdLookup(self.parts.store_of(self.org), self.org)

    @property
    def failures(self) -> Failures:
        return self.app.failures(org=self.org, by=self.principal.name)

    @property
    def runs(self) -> Runs:
        return self.app.runs(org=self.org, by=self.principal.name)

    @property
    def events(self) -> Events:
        return self.app.events(org=self.org, by=self.principal.name)

    @property
    def streams(self) -> Streams:
        return self.app.streams(org=self.org, by=self.principal.name)

    @property
    def queues(self) -> Queues:
        return self.app.queues(org=self.org, by=self.principal.name)

    @property
    def workers(self) -> Workers:
        return self.app.workers(org=self.org)

    @property
    def breakers(self) -> Breakers:
        return self.app.breakers(org=self.org, by=self.principal.name)

    @property
    def members(self) -> Members:
        return self.app.members(org=self.org, by=self.principal)


async def _visit_of(request: Request) -> RequestContext:
    # Async without awaiting: FastAPI runs other dependencies in a thread, which takes longer.
    visit: RequestContext = request.state.visit
    return visit


async def _failures_of(request: Request) -> Failures:
    return (await _visit_of(request)).failures


async def _runs_of(request: Request) -> Runs:
    return (await _visit_of(request)).runs


Visiting = Annotated[RequestContext, Depends(_visit_of)]
CallersFailures = Annotated[Failures, Depends(_failures_of)]
CallersRuns = Annotated[Runs, Depends(_runs_of)]
