"""Asking everybody's questions in the name of one organization, and comparing the answers with the matrix."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from tests.server.matrix import PUBLIC, TABLE, Aim, Aimed, Entry, Target
from tests.server.two_orgs import NOBODY, AuthenticatedCaller, Org, TwoOrgs
from tests.server.wire import Reply

from redrive.server.route import GuardedRoute

SILENT = (
    "/audit/verify",
    "/runs",
    "/jobs",
    "/runs/many",
    "/jobs/many",
    "/replay/preview",
    "/rebuilds/preview",
)
"""What needs no entry in the audit: it changes nothing, or the run itself is the record of it."""

_numbers = itertools.count(1)


def routes_of(api: FastAPI) -> list[str]:
    """Method and path of each."""
    found = [route for route in api.router.routes if isinstance(route, GuardedRoute)]
    return [f"{method} {route.path}" for route in found for method in sorted(route.methods or ())]


class MatrixRequests:
    """`faults` tells every answer that is not as it should be, `heard` is all that was answered."""

    def __init__(self, world: TwoOrgs, org: Org, *, only: str | None = None) -> None:
        self.faults: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.heard: list[bytes] = []
        self._world = world
        self._org = org
        routes = routes_of(world.house.api) if only is None else [only]
        self._entries = [(route, entry) for route in routes for entry in TABLE[route]]

    async def refusals(self) -> None:
        """What somebody may not do: with no credential, and without the right."""
        aim = Aim(self._world, self._org, use_up=False)
        for route, entry in self._entries:
            for visitor in (NOBODY, *self._org.visitors):
                if self._is_refused(entry, visitor):
                    for target in entry.targets:
                        await self._ask(route, entry, visitor, target, await aim.at(route, entry, target))

    async def misses(self) -> None:
        """What is not theirs, and what is not at all; and that nobody can tell which."""
        aim = Aim(self._world, self._org, use_up=False)
        for route, entry in self._entries:
            missed = [each for each in entry.targets if each is not Target.OWN]
            for visitor in self._org.visitors if missed else ():
                if not self._is_refused(entry, visitor):
                    await self._miss(aim, route, entry, visitor, missed)

    async def deeds(self) -> None:
        """What somebody may do, with what is theirs."""
        aim = Aim(self._world, self._org, use_up=True)
        for route, entry in self._entries:
            for visitor in (NOBODY, *self._org.visitors):
                if not self._is_refused(entry, visitor):
                    comes = entry.guest and visitor.kind == "session"
                    somebody = await self._org.guest(visitor.role) if comes else visitor
                    await self._do(route, entry, somebody, await aim.at(route, entry, Target.OWN))

    def _is_refused(self, entry: Entry, visitor: AuthenticatedCaller) -> bool:
        nobody = visitor is NOBODY and entry.action != PUBLIC
        return nobody or not entry.may(visitor, self._org.name)

    async def _miss(
        self, aim: Aim, route: str, entry: Entry, visitor: AuthenticatedCaller, missed: Sequence[Target]
    ) -> None:
        """Answered alike, but for the id that was asked for."""
        answers = []
        for target in missed:
            if not entry.enters(visitor, self._org.name, target):
                aimed = await aim.at(route, entry, target)
                reply = await self._ask(route, entry, visitor, target, aimed)
                answers.append(_without_ids(reply, aimed.id))
        if any(each != answers[0] for each in answers):
            self.faults.append(f"{route} as {visitor} is answered in different ways: {answers}")

    async def _do(self, route: str, entry: Entry, visitor: AuthenticatedCaller, aimed: Aimed) -> None:
        """What changes something is entered into the audit, once (I14)."""
        audit = (await self._org.failures()).audit
        before = (await audit.head()).sequence
        reply = await self._ask(route, entry, visitor, Target.OWN, aimed)
        written = (await audit.head()).sequence - before
        changes = (
            reply.status < 300 and not route.startswith(("GET ", "HEAD ")) and not route.endswith(SILENT)
        )
        if written != changes:
            self.faults.append(f"{route} as {visitor}: {written} entries in the audit")

    async def _ask(
        self, route: str, entry: Entry, visitor: AuthenticatedCaller, target: Target, aimed: Aimed
    ) -> Reply:
        number = next(_numbers)  # nobody is kept out for having asked too much
        address = f"10.0.{number // 250 % 250}.{number % 250}"
        reply = await aimed.inquiry.ask(self._world.house.api, address, **visitor.headers)
        self.statuses[reply.status] += 1
        self.heard.append(reply.everything)
        wanted = entry.expected(visitor, self._org.name, target)
        if reply.status != wanted:
            who = f"{visitor} of {self._org.name} with {target.value}"
            self.faults.append(f"{route} as {who}: {reply.status}, not {wanted}: {reply.content[:300]!r}")
        return reply


def _without_ids(reply: Reply, named: str) -> dict[str, Any]:
    headers = dict(reply.headers) | {"x-request-id": "", "content-length": ""}
    text = reply.content.decode().replace(named, "the id")
    text = _blank(_blank(text, '"request_id":"', '"'), "Request <code>", "</code>")
    return {"status": reply.status, "headers": headers, "body": text}


def _blank(text: str, before: str, after: str) -> str:
    head, found, rest = text.partition(before)
    return head + found + rest.partition(after)[2]
