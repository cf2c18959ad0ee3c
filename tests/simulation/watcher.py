"""Watches a history and collects violations. On a real database, only the end is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tests.simulation.loop import Process
from tests.simulation.script import TaskPlan
from tests.simulation.seam import Executed
from tests.simulation.stage import Stage

from redrive.engine.context import Context


class Finding(NamedTuple):
    invariant: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.subject}: {self.text}"


class Blind:
    """A watcher without checks, for real databases, where only the end is checked.

    reclaims  how often a worker has taken over the lease of a run
    figures   the expected statistics of dead letters, by organization, queue and name
    """

    sees = False

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.reclaims: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self.occurrences = stage.occurrences
        self.figures: Counter[tuple[str, str, str]] = Counter()

    @property
    def now(self) -> float:
        return self._stage.loop.time()

    def find(self, invariant: str, subject: str, text: str) -> None:
        finding = Finding(invariant, subject, text)
        self._stage.note(self._stage.loop.director, f"!!! {finding}")
        self.findings.append(finding)

    def held_by(self, process: Process) -> list[str]:
        """Return the runs whose lease this process holds."""
        return []

    def rolled_back(self) -> None: ...

    def committed(self, process: Process, executed: Sequence[Executed]) -> None: ...

    def begun(self, process: Process, context: Context, task: TaskPlan) -> None: ...

    def ended(self, process: Process, context: Context, task: TaskPlan) -> None: ...
