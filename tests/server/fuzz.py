"""Requests that the OpenAPI document allows, and those that it forbids, by everybody: python -m tests.server.fuzz

Schemathesis makes them: at the bounds of everything that the document says, and at random. Every answer is
compared with the document. Nothing may fail inside, nothing that is forbidden may be taken, and nobody may
reach or see what is another organization's (I8).
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.transport import Response
from tests.server.house import BASE, new_app, served
from tests.server.matrix import TABLE, A, Target
from tests.server.two_orgs import HOME, NOBODY, OTHER, Org, TwoOrgs, Visitor, two_orgs
from tests.server.wire import Reply, send
from tests.servers import postgresql

from redrive.server.document import document

LETTERS = 300
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
"""Where somebody may lose the session that they came by."""

IDS = {"ids": "open letter", "depends_on": "awaited letter", "group": "group"}
"""What bodies name, by the name of the field."""

_numbers = count(1)


class Fuzzer:
    """Asks in the name of one organization. `faults` are what was found, each once, with how to repeat it."""

    def __init__(self, runner: asyncio.Runner, world: TwoOrgs, org: Org) -> None:
        load_all_checks()
        self.faults: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        self.org = org
        self._runner = runner
        self._world = world
        self._other = world.other(org.name)
        self._checks = CHECKS.get_by_names(list(CHECKED))
        self._schema = schemathesis.openapi.from_dict(document(world.house.api))
        self._schema.config.generation.update(deterministic=True)
        self._schema.config.generation.with_security_parameters = False

    @property
    def operations(self) -> list[Any]:
        return [each.ok() for each in self._schema.get_all_operations()]

    def at_the_bounds(self, mode: GenerationMode) -> Iterator[Case]:
        """The smallest and the largest of everything, and a little more than that."""
        generation = self._schema.config.generation
        for operation in self.operations:
            yield from self._schema.iter_coverage_cases(
                operation, generation_modes=[mode], generation_config=generation
            )

    def at_random(self, mode: GenerationMode, examples: int) -> Iterator[Case]:
        for operation in self.operations:
            yield from _drawn(operation.as_strategy(generation_mode=mode), examples)

    def ask(self, case: Case, visitor: Visitor, target: Target | None = None) -> None:
        """With a target, what the request names is one of these."""
        named = False if target is None else self._aim(case, target)
        reply, response = self._answered(case, self._coming(case, visitor))
        self.calls[f"{reply.status // 100}xx"] += 1
        self._compare(case, visitor, response)
        if self._other.canary.encode() in reply.everything:
            self._found(case, visitor, response, "the other organization's canary")
        if named and target is Target.FOREIGN and reply.status < 300:
            self._found(case, visitor, response, "what is the other organization's was reached")

    def _aim(self, case: Case, target: Target) -> bool:
        """Is there anything to name?"""
        kinds = _kinds(case)
        if case.path_parameters and kinds:
            known = {name: self._named(kind, target) for name, kind in kinds.items()}
            case.path_parameters = {**case.path_parameters, **known}
        body = case.body
        fields = IDS.keys() & body.keys() if isinstance(body, dict) else set()
        if isinstance(body, dict) and fields:
            case.body = {**body, **{name: self._field(body[name], name, target) for name in fields}}
        return bool(kinds or fields) and not kinds.keys() & {"name"}

    def _field(self, value: Any, name: str, target: Target) -> Any:
        """Only what is well-formed is put in the place of something well-formed."""
        if isinstance(value, list) and value and all(isinstance(each, str) and each for each in value):
            return [self._named(IDS[name], target)]
        return self._named(IDS[name], target) if isinstance(value, str) and value else value

    def _named(self, kind: str, target: Target) -> str:
        if target is Target.OWN:
            return self._runner.run(self.org.fresh(kind))
        return self._other.kept[kind]

    def _coming(self, case: Case, visitor: Visitor) -> Visitor:
        if visitor.kind == "session" and case.path.startswith(ENDING):
            return self._runner.run(self.org.guest(visitor.role))
        return visitor

    def _answered(self, case: Case, visitor: Visitor) -> tuple[Reply, Response]:
        prepared = requests.Request(**case.as_transport_kwargs(BASE, dict(visitor.headers))).prepare()
        url, number = urlsplit(str(prepared.url)), next(_numbers)
        headers = {"host": url.netloc, **{name.lower(): value for name, value in prepared.headers.items()}}
        headers = {name: _text(value) for name, value in headers.items()} | visitor.headers
        body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body or b""
        method, address = str(prepared.method), f"10.1.{number // 250 % 250}.{number % 250}"
        asking = send(self._world.house.api, method, url.path, url.query, headers, body, address)
        reply = self._runner.run(asking)
        told: dict[str, list[str]] = {}
        for name, value in reply.headers:
            told.setdefault(name, []).append(value)
        return reply, Response(reply.status, told, reply.content, prepared, 0.0, False)

    def _compare(self, case: Case, visitor: Visitor, response: Response) -> None:
        try:
            case.validate_response(response, checks=self._checks)
        except FailureGroup as group:
            for each in group.exceptions:
                self._found(case, visitor, response, str(each))

    def _found(self, case: Case, visitor: Visitor, response: Response, what: str) -> None:
        name = f"{case.operation.label}: {response.status_code}: {what[:200]}"
        request = response.request
        asked = f"{request.method} {request.url}\n{request.body!r:.600}"
        self.faults.setdefault(name, f"{name}\nas {visitor}\n{asked}\n{response.content[:500]!r}")


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _kinds(case: Case) -> dict[str, str]:
    """What the parameters of the address name, by their name."""
    route = f"{case.operation.method.upper()} {case.path}"
    [entry, *_] = _ENTRIES[route]
    return {name: each.kind for name, each in entry.path.items() if isinstance(each, A)}


_ENTRIES = {route.replace(":path}", "}"): entries for route, entries in TABLE.items()}


def _drawn(strategy: Any, examples: int) -> list[Case]:
    cases: list[Case] = []

    @settings(
        max_examples=examples,
        derandomize=True,
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
    except Unsatisfiable:  # where nothing is sent, nothing can be wrong with it
        return []
    return cases
