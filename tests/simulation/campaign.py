"""Many histories in a row: the violations found, and the faults that took effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.simulation.coverage import missing
from tests.simulation.history import History
from tests.simulation.simulate import simulate


@dataclass(frozen=True)
class Violation:
    seed: int
    history: History
    guard: str | None = None

    def __str__(self) -> str:
        found = "\n".join(f"  {finding}" for finding in self.history.findings[:10])
        without = "" if self.guard is None else f" --without {self.guard}"
        return (
            f"seed {self.seed} violates {', '.join(sorted(self.history.invariants))}:\n{found}\n"
            f"  replay it: python -m tests.simulation --seed {self.seed}{without}\n"
            f"  shrink it: python -m tests.simulation --seed {self.seed}{without} --shrink"
        )


@dataclass
class Campaign:
    histories: int = 0
    seconds: float = 0.0
    occurrences: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def add(self, other: Campaign) -> None:
        self.histories += other.histories
        self.seconds += other.seconds
        self.occurrences += other.occurrences
        self.violations += other.violations

    @property
    def vacuous(self) -> list[str]:
        """List the faults that should have taken effect in this many histories, and never have."""
        return missing(self.occurrences, self.histories)


def run(seeds: Iterable[int], guard: str | None = None) -> Campaign:
    """Play every seed once. `guard` names a guard of tests/guards that is switched off meanwhile."""
    campaign = Campaign()
    with without(guard):
        for seed in seeds:
            history = simulate(seed)
            campaign.histories += 1
            campaign.seconds += history.seconds
            campaign.occurrences += history.occurrences
            if history.findings:
                campaign.violations.append(Violation(seed, history, guard))
    return campaign


def find_violation(seeds: Iterable[int]) -> Violation | None:
    """Return the history of the first seed that breaks a promise."""
    return next(_violations(seeds), None)


def _violations(seeds: Iterable[int]) -> Iterator[Violation]:
    for seed in seeds:
        history = simulate(seed)
        if history.findings:
            yield Violation(seed, history)


@contextmanager
def without(guard: str | None) -> Iterator[None]:
    if guard is None:
        yield
        return
    from tests.guards.switch import switched_off  # only if a guard is to be switched off

    with switched_off(guard):
        yield
