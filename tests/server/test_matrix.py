"""Every route × everybody who may come × what they name: their own, another organization's, what never was.

The routes come from the application, what to expect comes from tests/server/matrix.py, which has the table of
roles once more, by hand (W12, W13, I8, I14, security baseline: authorization and tenants).
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from fastapi import FastAPI
from tests.server.house import House, new_app
from tests.server.matrix import TABLE, Aim, Aimed, Entry, Target
from tests.server.rows import all_rows, difference, ids_of, rows_of
from tests.server.two_orgs import HOME, NOBODY, OTHER, Org, TwoOrgs, Visitor, two_orgs
from tests.server.wire import Reply

from redrive.errors import InvalidValueError
from redrive.server.app import create_app
from redrive.server.route import GuardedRoute, refuse_without_rule

LETTERS = 420
"""What the requests of one organization use up, all in all."""

_addresses = itertools.count(1)


def routes_of(api: FastAPI) -> list[str]:
    found = [route for route in api.router.routes if isinstance(route, GuardedRoute)]
    return [f"{method} {route.path}" for route in found for method in sorted(route.methods or ())]


class Matrix:
    """The requests of one organization, and everything in which the answers are not as they should be."""

    def __init__(self, world: TwoOrgs, org: str) -> None:
        self.world = world
        self.org = world.orgs[org]
        self.faults: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.heard: list[bytes] = []
        routes = routes_of(world.house.api)
        self._entries = [(route, entry) for route in routes for entry in TABLE[route]]

    async def refusals(self) -> None:
        """All that somebody may not do: with no credential, and without the right."""
        aim = Aim(self.world, self.org.name, use_up=False)
        for route, entry in self._entries:
            for visitor in (NOBODY, *self.org.visitors):
                if entry.expected(visitor, self.org.name, Target.OWN) in (401, 403):
                    for target in entry.targets:
                        await self._ask(route, entry, visitor, target, await aim.at(route, entry, target))

    async def misses(self) -> None:
        """What is not theirs, or is not at all, and how one cannot tell which."""
        aim = Aim(self.world, self.org.name, use_up=False)
        for route, entry in self._entries:
            missed = [each for each in entry.targets if each is not Target.OWN]
            for visitor in self.org.visitors if missed else ():
                if entry.may(visitor, self.org.name):
                    alike = [
                        await self._missed(aim, route, entry, visitor, target)
                        for target in missed
                        if not entry.enters(visitor, self.org.name, target)
                    ]
                    self._expect(all(each == alike[0] for each in alike), f"{route} as {visitor}: {alike}")

    async def deeds(self) -> None:
        """What they may do, with what is theirs."""
        aim = Aim(self.world, self.org.name, use_up=True)
        for route, entry in self._entries:
            for visitor in (NOBODY, *self.org.visitors):
                if entry.expected(visitor, self.org.name, Target.OWN) not in (401, 403):
                    somebody = await self._coming(entry, visitor)
                    aimed = await aim.at(route, entry, Target.OWN)
                    await self._ask(route, entry, somebody, Target.OWN, aimed)

    async def _coming(self, entry: Entry, visitor: Visitor) -> Visitor:
        if entry.guest and visitor.kind == "session":
            return await self.org.guest(visitor.role)
        return visitor

    async def _missed(
        self, aim: Aim, route: str, entry: Entry, visitor: Visitor, target: Target
    ) -> dict[str, Any]:
        aimed = await aim.at(route, entry, target)
        reply = await self._ask(route, entry, visitor, target, aimed)
        headers = dict(reply.headers) | {"x-request-id": "", "content-length": ""}
        problem = reply.content.replace(aimed.id.encode(), b"the id")
        return {"headers": headers, **_parsed(problem), "request_id": ""}

    async def _ask(self, route: str, entry: Entry, visitor: Visitor, target: Target, aimed: Aimed) -> Reply:
        address = f"10.0.{next(_addresses) // 200 % 200}.{next(_addresses) % 200}"
        reply = await aimed.inquiry.ask(self.world.house.api, address, **visitor.headers)
        wanted = entry.expected(visitor, self.org.name, target)
        self.statuses[reply.status] += 1
        self.heard.append(reply.everything)
        said = f"{route} as {visitor} of {self.org.name} with {target.value}: {reply.status} {reply.content[:300]!r}"
        self._expect(reply.status == wanted, f"{said}, and not {wanted}")
        return reply

    def _expect(self, holds: bool, said: str) -> None:
        if not holds:
            self.faults.append(said)


def _parsed(content: bytes) -> dict[str, Any]:
    import json

    parsed: dict[str, Any] = json.loads(content)
    return parsed
