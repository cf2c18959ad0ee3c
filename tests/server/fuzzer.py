"""Requests that the OpenAPI document allows, and requests that it forbids, as one organization.

Schemathesis generates them, at the bounds of the document and at random, and compares every response with the
document. No request causes a server error, the server accepts no forbidden request, and no caller sees or
reaches rows of another organization (I8).
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count, cycle
from typing import Any
from urllib.parse import urlsplit

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.transport import Response
from tests.server.house import BASE, ORIGIN
from tests.server.matrix import TABLE, A, Own, Target
from tests.server.two_orgs import NOBODY, AuthenticatedCaller, Org, TwoOrgs
from tests.server.wire import Reply, send

from redrive.errors import RedriveError
from redrive.server.api.reference import document

Case = schemathesis.Case[Any]

LETTERS = 400
FEW = 20
CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
ENDING = ("/api/v1/session", "/api/v1/members/self")
"""Routes that may end the caller's own session."""

SHARED = ("/api/v1/queues", "/api/v1/breakers")
"""Routes whose rows belong to all organizations."""

IDS = {"ids": "open letter", "depends_on": "awaited letter", "group": "group"}
"""The kind of row that each body field names."""

KEY = "Idempotency-Key"
STEERING = frozenset({"If-Match", KEY})
GUESSED = frozenset({"from_step", "from_step_index", "until", "at", "keys", "head"})
TARGETS = (None, Target.OWN, Target.FOREIGN)

_numbers = count(1)


class Fuzzer:
    """Sends requests as one organization.

    `faults` lists each fault once, with the request that repeats it.
    """

    def __init__(self, runner: asyncio.Runner, world: TwoOrgs, org: Org) -> None:
        load_all_checks()
        self.faults: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        self.restocks = False
        self.org = org
        self.other = world.other(org.name)
        self.run = runner.run
        self._world = world
        self._checks: list[Any] = list(CHECKS.get_by_names(list(CHECKED)))
        self._schema = schemathesis.openapi.from_dict(document(world.house.api))
        self._schema.config.generation.with_security_parameters = False

    @property
    def owner(self) -> AuthenticatedCaller:
        return next(each for each in self.org.visitors if (each.kind, each.role) == ("key", "OWNER"))

    @property
    def operations(self) -> list[Any]:
        found: Iterable[Any] = self._schema.get_all_operations()
        return [each.ok() for each in found]

    def at_the_bounds(self, mode: GenerationMode) -> Iterator[Case]:
        """Yield requests with the smallest and largest allowed values, and just beyond them."""
        generation = self._schema.config.generation
        for operation in self.operations:
            yield from self._schema.iter_coverage_cases(
                operation, generation_modes=[mode], generation_config=generation
            )

    def at_random(self, mode: GenerationMode, examples: int, number: int = 0) -> Iterator[Case]:
        """Yield `examples` random requests for each operation; `number` is the seed."""
        for operation in self.operations:
            yield from _drawn(operation.as_strategy(generation_mode=mode), examples, number)

    def ask_all(self, cases: Iterable[Case], targets: Sequence[Target | None] = TARGETS) -> None:
        """Send every case, in turn as an owner and as each other caller, and at each target."""
        others = cycle([NOBODY, *self.org.visitors])
        for number, case in enumerate(cases):
            visitor = self.owner if number % 2 else next(others)
            self.ask(case, visitor, targets[number // 2 % len(targets)])

    def ask(self, case: Case, visitor: AuthenticatedCaller, target: Target | None = None) -> None:
        """Send a case. With a target, replace the ids in it by ids of that target."""
        if self.org.letters_left < FEW and self.restocks:
            self.run(self.org.restock(LETTERS))
        if KEY in case.headers:
            case.headers[KEY] = _another(case.headers[KEY])
        named = False if target is None else self._aim(case, target)
        reply, response = self._answered(case, self._coming(case, visitor))
        self.calls[f"{reply.status // 100}xx"] += 1
        self._compare(case, visitor, response)
        if self.other.canary.encode() in reply.everything:
            self._found(case, visitor, response, "the other organization's canary")
        if named and target is Target.FOREIGN and reply.status < 300:
            self._found(case, visitor, response, "what is the other organization's was reached")

    def _aim(self, case: Case, target: Target) -> bool:
        """Put the target's ids into a case; return whether it names any.

        Drop headers that would stop it early.
        """
        for name in STEERING & case.headers.keys():
            del case.headers[name]
        case.query.pop("cursor", None)
        places = _places(case)
        if case.path_parameters:
            known = {name: self._place(each, target) for name, each in places.items()}
            case.path_parameters = {**case.path_parameters, **known}
        fields = set()
        if isinstance(case.body, dict):
            body, fields = _plain(case.body), IDS.keys() & case.body.keys()
            case.body = {
                **body,
                **{name: self._field(body[name], name, target) for name in fields & body.keys()},
            }
        return bool(places or fields) and not case.path.startswith(SHARED)

    def _place(self, marker: A | Own, target: Target) -> str:
        return self._named(marker.kind, target if isinstance(marker, A) else Target.OWN)

    def _field(self, value: Any, name: str, target: Target) -> Any:
        """Replace a well-formed value by a well-formed one."""
        if isinstance(value, list) and value and all(isinstance(each, str) and each for each in value):
            return [self._named(IDS[name], target)]
        return self._named(IDS[name], target) if isinstance(value, str) and value else value

    def _named(self, kind: str, target: Target) -> str:
        if target is Target.OWN:
            return self.run(self._fresh(kind))
        return self.other.kept[kind]

    async def _fresh(self, kind: str) -> str:
        """Return an id to use up. Earlier requests may have closed the row that was made for this."""
        for _ in range(FEW):
            with suppress(RedriveError, IndexError):
                return await self.org.fresh(kind)
        return self.org.kept[kind]

    def _coming(self, case: Case, visitor: AuthenticatedCaller) -> AuthenticatedCaller:
        if visitor.kind == "session" and case.path.startswith(ENDING):
            return self.run(self.org.guest(visitor.role))
        return visitor

    def _answered(self, case: Case, visitor: AuthenticatedCaller) -> tuple[Reply, Response]:
        prepared = requests.Request(**case.as_transport_kwargs(BASE, dict(visitor.headers))).prepare()
        url, number = urlsplit(str(prepared.url)), next(_numbers)
        headers = {
            "host": url.netloc,
            **ORIGIN,
            **{name.lower(): value for name, value in prepared.headers.items()},
        }
        headers = {name: _text(value) for name, value in headers.items()} | visitor.headers
        body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body or b""
        method, address = str(prepared.method), f"10.1.{number // 250 % 250}.{number % 250}"
        asking = send(self._world.house.api, method, url.path, url.query, headers, body, address)
        reply = self.run(asking)
        told: dict[str, list[str]] = {}
        for name, value in reply.headers:
            told.setdefault(name, []).append(value)
        return reply, Response(reply.status, told, reply.content, prepared, 0.0, False)

    def _compare(self, case: Case, visitor: AuthenticatedCaller, response: Response) -> None:
        checks = [each for each in self._checks if each.__name__ not in _beside(case, response)]
        try:
            case.validate_response(response, checks=checks)
        except FailureGroup as group:
            for each in group.exceptions:
                self._found(case, visitor, response, str(each))

    def _found(self, case: Case, visitor: AuthenticatedCaller, response: Response, what: str) -> None:
        name = f"{case.operation.label}: {response.status_code}: {what[:200]}"
        request = response.request
        asked = f"{request.method} {request.url}\n{request.body!r:.600}"
        self.faults.setdefault(name, f"{name}\nas {visitor}\n{asked}\n{response.content[:500]!r}")


def _another(key: Any) -> Any:
    """Return a new key for a well-formed one, so that no key is used twice."""
    return f"key-{next(_numbers)}" if isinstance(key, str) and re.fullmatch("[!-~]+", key) else key


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _beside(case: Case, response: Response) -> set[str]:
    """List checks that don't apply: a stream is not JSON, and the document doesn't list every rejection."""
    stream = {"response_schema_conformance"} if case.path == "/api/v1/events" else set()
    return stream | ({"negative_data_rejection"} if response.status_code in (412, 413, 414) else set())


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """Drop exclusive and unguessable fields; add a reason, and the name of existing work."""
    excluded = {"query", "expect", "group"} if "ids" in body else {"queue"} if "work" in body else set()
    kept = {name: value for name, value in body.items() if name not in GUESSED | excluded}
    named = {"work": "greet"} if isinstance(kept.get("work"), str) and kept["work"] else {}
    return {**kept, **named, **({"reason": "why"} if kept.get("reason") == "" else {})}


def _places(case: Case) -> dict[str, A | Own]:
    """Return what each path parameter names."""
    [entry, *_] = _ENTRIES[f"{case.operation.method.upper()} {case.path}"]
    return {name: each for name, each in entry.path.items() if isinstance(each, (A, Own))}


_ENTRIES = {route.replace(":path}", "}"): entries for route, entries in TABLE.items()}


def _drawn(strategy: Any, examples: int, number: int) -> list[Case]:
    cases: list[Case] = []

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(case: Case) -> None:
        cases.append(case)

    try:
        draw()
    except Unsatisfiable:  # the operation has nothing that could be invalid
        return []
    return cases
