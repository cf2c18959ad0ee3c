"""The context of an authenticated request: the caller, and services that act in the caller's organization."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import Depends
from starlette.requests import Request

from redrive.app import Redrive
from redrive.engine.breaker_queries import BreakerQueries
from redrive.engine.queue_queries import QueueQueries
from redrive.engine.run_queries import RunQueries
from redrive.failures.overview import OverviewQueries
from redrive.failures.service import Failures
from redrive.identity.directory import Directory
from redrive.model.caller import Caller
from redrive.policy.access import Principal
from redrive.server.problem import ProblemError


class RequestContext(NamedTuple):
    """`csrf` is the token of a browser's session; None for keys."""

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
        """Keys have no session and no membership: they are revoked."""
        if self.principal.user_id is None:
            raise ProblemError(
                409,
                "not_a_session",
                "this is for people who have signed in, not for keys",
                hint="sign in first",
            )

    async def desk(self) -> Failures:
        return await self.app.desk(org=self.org, by=self.principal.name)

    async def runs(self) -> RunQueries:
        return await self.app.runs(org=self.org, by=self.principal.name)

    async def queues(self) -> QueueQueries:
        return await self.app.queue_book(org=self.org, by=self.principal.name)

    async def breakers(self) -> BreakerQueries:
        return await self.app.breaker_book(org=self.org, by=self.principal.name)

    async def overview(self) -> OverviewQueries:
        return await self.app.overview(org=self.org, by=self.principal.name)

    async def directory(self) -> Directory:
        return await self.app.directory(org=self.org, by=self.principal)


async def _visit_of(request: Request) -> RequestContext:
    # Nothing is waited for; but FastAPI would call what is not async in a thread, which takes longer.
    visit: RequestContext = request.state.visit
    return visit


async def _desk_of(request: Request) -> Failures:
    return await (await _visit_of(request)).desk()


async def _runs_of(request: Request) -> RunQueries:
    return await (await _visit_of(request)).runs()


Visiting = Annotated[RequestContext, Depends(_visit_of)]
AtDesk = Annotated[Failures, Depends(_desk_of)]
Runs = Annotated[RunQueries, Depends(_runs_of)]
