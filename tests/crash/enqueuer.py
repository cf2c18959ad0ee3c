"""A process that starts runs, reports the acknowledged ones, and may die at any moment.

Some runs have an idempotency key: if such a start was not answered, the next enqueuer repeats it. Sometimes
it reuses a key for different work, which Redrive must reject.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from tests.crash.backlog import backlog
from tests.crash.sink import Line, Sink
from tests.crash.work import ORGS, WORKFLOWS, payload

from redrive.app import Redrive
from redrive.errors import ConflictError, StoreUnavailableError
from redrive.parts import parts_of

MAX_CONCURRENT = 6


class Request(NamedTuple):
    """A start of runs. `names` identify its runs, and are their keys if it is `keyed`."""

    workflow: str
    org: str
    names: list[str]
    payloads: list[Any]
    keyed: bool


class Enqueuer:
    def __init__(self, app: Redrive, line: Line, random: Random, name: str, most_waiting: int) -> None:
        self._app = app
        self._line = line
        self._name = name
        self._random = random
        self._most_waiting = most_waiting
        self._number = 0

    async def run(self, again: list[list[Any]]) -> None:
        """Start runs until killed."""
        for repeated in again:
            await self._ask(Request(*repeated))
        while True:
            while await self._is_enough():
                await asyncio.sleep(0.05)
            request = self._new_request()
            known = await self._ask(request) and request.keyed
            if known and self._random.random() < 0.2:
                await self._ask_in_conflict(request)

    async def _is_enough(self) -> bool:
        try:
            return await backlog(parts_of(self._app).database) >= self._most_waiting
        except StoreUnavailableError:
            return True

    def _new_request(self) -> Request:
        random = self._random
        [workflow] = random.choices(list(WORKFLOWS), list(WORKFLOWS.values()))
        count = random.randint(1, MAX_CONCURRENT)
        names = [f"{self._name}-{self._number + each}" for each in range(count)]
        self._number += count
        payloads = [payload(random) for _ in names]
        return Request(workflow, random.choice(ORGS), names, payloads, random.random() < 0.5)

    async def _ask(self, request: Request) -> bool:
        """Start the runs and return whether Redrive acknowledged them."""
        self._line.tell("request", request=request)
        try:
            ids = await self._start(request)
        except StoreUnavailableError:
            await asyncio.sleep(0.1)
            return False
        self._line.tell("acknowledged", names=request.names, ids=ids)
        return True

    async def _start(self, request: Request) -> list[str]:
        """Start a single run, or all of several runs or none."""
        workflow, org, names, payloads, keyed = request
        if len(names) == 1:
            run = await self._app.start(workflow, payloads[0], org=org, key=names[0] if keyed else None)
            return [run.id]
        runs = await self._app.start_many(workflow, payloads, org=org, keys=names if keyed else None)
        return [run.id for run in runs]

    async def _ask_in_conflict(self, request: Request) -> None:
        workflow, org, [key, *_], _, _ = request
        name = f"{key}-conflict"
        with suppress(StoreUnavailableError):
            try:
                await self._app.start(workflow, {"other": "work"}, org=org, key=key, correlation_id=name)
            except ConflictError:
                self._line.tell("refused", name=name)
            else:
                self._line.tell("not refused", name=name)


def unanswered(sink: Sink, place: int) -> list[Any]:
    """Return the keyed starts of all earlier enqueuers in this place that no answer has reached."""
    answered = {name for note in sink.of("acknowledged") for name in note["names"]}
    requests = (Request(*note["request"]) for note in sink.of("request"))
    return [
        request
        for request in requests
        if request.keyed
        and request.names[0].startswith(f"{place}-")
        and not answered.issuperset(request.names)
    ]
