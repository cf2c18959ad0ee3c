"""The targets: ratios within one run, and milliseconds where a person waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.dead_letters.ablation import COMPLETE
from bench.dead_letters.measurement import MICROSECONDS
from bench.dead_letters.plan import DATABASES
from bench.dead_letters.runner import EMPTY, FILLED, PGQUEUER, label_of
from bench.work.runner import Results
from bench.work.targets import Verdict

ANSWERED_WITHIN = 150.0
_READ = ("page ", "count ", "groups ", "group ", "letter ", "statistics")
_BURIED = f"fail for good, {COMPLETE}"
_BARE = "fail for good, without groups and audit"


class Targets:
    def __init__(self, results: Results, beside: Path | None = None) -> None:
        self._results = results
        self.verdicts = [each for database in DATABASES for each in self._judged(f"redrive ({database})")]
        if beside is not None:
            for database in DATABASES:
                earlier = label_of(beside, database)
                self.verdicts += self._ratio(
                    "replay, many", f"redrive ({database})", "replay, many", earlier, 3.0
                )

    @property
    def missed(self) -> list[str]:
        return [verdict.text for verdict in self.verdicts if not verdict.met]

    def _judged(self, ours: str) -> Iterator[Verdict]:
        yield from self._ratio(_BURIED, ours, "fail for good", PGQUEUER, 1.2)
        yield from self._ratio(_BARE + MICROSECONDS, ours, _BURIED + MICROSECONDS, ours, 0.9)
        for what in ("enqueue bulk", "drain, 1 process"):
            yield from self._ratio(f"{what}, {FILLED}", ours, f"{what}, {EMPTY}", ours, 1 / 1.3)
        yield from self._ratio("replay, many", ours, "plain work", ours, 0.25)
        yield from self._ratio("replay, many", ours, "replay, one", ours, 5.0)
        for what, row in self._results.figures.items():
            if what.startswith(_READ) and ours in row:
                yield Verdict(f"{what}: {ours}", row[ours].median, ANSWERED_WITHIN, at_most=True)

    def _ratio(self, what: str, who: str, other: str, whose: str, limit: float) -> Iterator[Verdict]:
        value, base = self._results.median(what, who), self._results.median(other, whose)
        if value is not None and base and (whose != PGQUEUER or who.endswith("(postgresql)")):
            than = other if whose in (who, PGQUEUER) else f"{other} of {whose}"
            yield Verdict(f"{what} / {than}: {who}", value / base, limit, at_most=False)
