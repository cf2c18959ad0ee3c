"""Points where a process kills itself: `worker:claim:after:2` is right after its second claim is committed.

before  right before the statement executes, which may be in the middle of a transaction
inside  at the end of the transaction that contains it, before its COMMIT
after   after its commit, before the process learns of it

The statements of a drain count from the moment when the worker gets the signal to stop.
"""

from __future__ import annotations

import os
import signal
from typing import NamedTuple, Self

from tests.crash.sink import Line

DRAIN = "drain"


class Point(NamedTuple):
    """A point. `role` is that of the processes that reach it."""

    role: str
    name: str
    moment: str
    number: int

    @classmethod
    def of(cls, text: str) -> Self:
        role, name, moment, number = text.split(":")
        return cls(role, name, moment, int(number))

    def __str__(self) -> str:
        return ":".join(map(str, self))

    @property
    def place(self) -> str:
        return ":".join(self[:-1])


class Trap:
    def __init__(self, line: Line, point: Point | None) -> None:
        self._line = line
        self._point = point
        self._reached = 0
        self.draining = False

    def reach(self, name: str, moment: str) -> None:
        if self._point is None or moment != self._point.moment or not self._is_meant(name):
            return
        self._reached += 1
        if self._reached == self._point.number:
            self._line.tell("trap_hit", point=str(self._point))
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_meant(self, name: str) -> bool:
        assert self._point is not None
        return self.draining if self._point.name == DRAIN else name == self._point.name
