"""What was, beside what would have been: dead letters, attempts, and the time until success."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from redrive.policy.what_if import UNCHANGEABLE, FailedStep, Proof, Relived, Works, unseen

MINUTE = 60.0


class Peak(NamedTuple):
    """The minute with the most attempts, by its beginning."""

    at: float
    attempts: int


@dataclass(slots=True)
class Side:
    """What was, or what would have been.

    waits  seconds from the first failure to the attempt that succeeded, of all that did
    """

    attempts: int = 0
    dead_letters: int = 0
    minutes: Counter[int] = field(default_factory=Counter)
    waits: array[float] = field(default_factory=lambda: array("d"))

    def add(self, starts: Iterable[float], wait: float | None) -> None:
        for start in starts:
            self.attempts += 1
            self.minutes[int(start // MINUTE)] += 1
        if wait is None:
            self.dead_letters += 1
        else:
            self.waits.append(wait)

    @property
    def busiest(self) -> Peak | None:
        if not self.minutes:
            return None
        minute, attempts = max(self.minutes.items(), key=lambda each: (each[1], -each[0]))
        return Peak(minute * MINUTE, attempts)

    def waited(self, share: float) -> float | None:
        """So much of what succeeded had waited no longer."""
        return percentile(self.waits, share)


@dataclass(slots=True)
class PolicyComparison:
    """
    failures   steps of runs that failed at least once
    avoided    dead letters that there would not be, by what shows it
    made       dead letters that there would be, and are not
    unsure     those of them with attempts of which nobody knows whether they had not worked already
    final      dead letters that stay, since trying again cannot help against the error
    too_early  those that stay, since it is known to have worked only later
    unknown    those that stay, since nothing shows when it worked
    hoped_for  so many of the unknown and the unsure would be none, if they went as other retries did
    """

    failures: int = 0
    recorded: Side = field(default_factory=Side)
    changed: Side = field(default_factory=Side)
    avoided: Counter[Proof] = field(default_factory=Counter)
    made: int = 0
    unsure: int = 0
    final: int = 0
    too_early: int = 0
    unknown: int = 0
    hoped_for: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, trouble: FailedStep, relived: Relived, works: Works | None, chance: float = 0.0) -> None:
        """`chance`: that one of its unseen attempts succeeds, from 0 to 1."""
        began = trouble.first_failed_at
        recorded = None if trouble.succeeded_at is None else trouble.succeeded_at - began
        self.failures += 1
        self.recorded.add(trouble.starts, recorded)
        self.changed.add(relived.starts, relived.starts[-1] - began if relived.succeeded else None)
        if trouble.succeeded_at is None:
            self._judge_letter(relived, works, chance)
        elif not relived.succeeded:
            self.made += 1
            self.unsure += unseen(trouble, relived) > 0
            self.hoped_for["unsure"] += chance

    def _judge_letter(self, relived: Relived, works: Works | None, chance: float) -> None:
        if relived.succeeded:
            self.avoided[Proof.ITSELF if works is None else works.proof] += 1
        elif relived.reason in UNCHANGEABLE:
            self.final += 1
        elif works is None:
            self.unknown += 1
            self.hoped_for["unknown"] += chance
        else:
            self.too_early += 1


def percentile(values: Sequence[float], share: float) -> float | None:
    """The least of the values that so much of them do not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
