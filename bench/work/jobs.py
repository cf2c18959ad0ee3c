"""The jobs: the same for every contender, and almost empty."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from bench.work.shared_counters import SharedCounters

Payload = dict[str, Any]
_FILLING = "x" * 172
LONG = 600.0


class Kind(StrEnum):
    NOTHING = "nothing"
    PICK_UP = "pick_up"
    FAIL_ONCE = "fail_once"
    FAIL = "fail"
    WORKFLOW = "workflow"
    SLEEP = "sleep"


class PassingError(ConnectionError):
    """A temporary failure."""


def payload(number: int) -> Payload:
    """Return about 200 bytes of JSON."""
    return {"number": number, "text": _FILLING}


def payloads(count: int) -> Iterator[Payload]:
    return map(payload, range(count))


class Jobs:
    """The jobs of one worker. A contender calls `perform` or `perform_async` for each attempt.

    A workflow calls it in its first step, and `end` in its last.
    """

    def __init__(self, kind: Kind, counters: SharedCounters, worker: int) -> None:
        self.kind = kind
        self._board = counters
        self._worker = worker
        self._failed: set[int] = set()

    def perform(self, payload: Payload) -> None:
        if self.kind is Kind.FAIL_ONCE and payload["number"] not in self._failed:
            self._board.note(self._worker)
            self._failed.add(payload["number"])
            raise PassingError("this once")
        if self.kind is not Kind.FAIL_ONCE:
            self._board.note(self._worker)
        if self.kind is not Kind.WORKFLOW:
            self.end()
        if self.kind is Kind.FAIL:
            raise PassingError("for good")

    async def perform_async(self, payload: Payload) -> None:
        self.perform(payload)
        if self.kind is Kind.SLEEP:
            await asyncio.sleep(LONG)

    def end(self) -> None:
        self._board.note_done(self._worker)
