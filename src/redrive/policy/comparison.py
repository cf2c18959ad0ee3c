"""The comparison of the recorded policy with another: dead letters, attempts, and time until success."""

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
    """The minute with the most attempts; `at` is its start."""

    at: float
    attempts: int


@dataclass(slots=True)
class Side:
    """The totals of one policy: the recorded one, or the other.

    waits  seconds from the first failure to the successful attempt
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
        minute, attempts = max(self.minutes.items(), key=lambda entry: (entry[1], -entry[0]))
        return Peak(minute * MINUTE, attempts)

    def waited(self, share: float) -> float | None:
        """Return the wait that a `share` of the successes did not exceed."""
        return percentile(self.waits, share)


@dataclass(slots=True)
class PolicyComparison:
    """The differences that the other policy would make.

    failures   steps of runs that failed at least once
    avoided    dead letters that would not exist, by kind of evidence
    made       additional dead letters
    unsure     additional dead letters with attempts that may have succeeded
    final      dead letters that remain because no retry helps against the error
    too_early  dead letters that remain because the step worked only later
    unknown    dead letters that remain because nothing shows when the step worked
    hoped_for  the expected number of unknown and unsure ones that would succeed, estimated from other retries
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

    def add(self, step: FailedStep, relived: Relived, works: Works | None, chance: float = 0.0) -> None:
        """Add a step. `chance`, from 0 to 1: the probability that one of its unseen attempts succeeds."""
        began = step.first_failed_at
        recorded = None if step.succeeded_at is None else step.succeeded_at - began
        self.failures += 1
        self.recorded.add(step.starts, recorded)
        self.changed.add(relived.starts, relived.starts[-1] - began if relived.succeeded else None)
        if step.succeeded_at is None:
            self._judge_letter(relived, works, chance)
        elif not relived.succeeded:
            self.made += 1
            self.unsure += unseen(step, relived) > 0
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
    """Return the smallest value that a `share` of the values does not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
