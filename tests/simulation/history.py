"""The result of a script: its trace, its endings, and the violations found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation.script import Script
from tests.simulation.watcher import Finding


class Ending(NamedTuple):
    """How a run has ended, without anything that depends on timing."""

    number: int
    state: str
    step_index: int
    step_state: str
    failures: int
    error_class: str | None
    replays: int
    letter: str | None


@dataclass
class History:
    script: Script
    trace: list[tuple[float, str, str]] = field(default_factory=list)
    occurrences: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def invariants(self) -> set[str]:
        return {finding.invariant for finding in self.findings}

    def transcript(self) -> str:
        return "\n".join(f"{time:10.4f}  {process:<10} {what}" for time, process, what in self.trace)
