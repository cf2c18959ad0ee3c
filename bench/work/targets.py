"""The targets: ratios within one run, met or missed. Failed measurements have no verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.work.contender import ENTRIES, MINIMAL, OURS, RAW, YARDSTICKS
from bench.work.growth import EMPTY
from bench.work.runner import Results

OURS_ON_POSTGRESQL = f"{OURS} (postgresql)"
OURS_ON_SQLITE = f"{OURS} (sqlite)"
RAW_ON_POSTGRESQL = f"{RAW} (postgresql)"
RAW_ON_SQLITE = f"{RAW} (sqlite)"
MINIMAL_ON_POSTGRESQL = f"{MINIMAL} (postgresql)"
PGQUEUER = "pgqueuer (postgresql)"
DBOS = "dbos (postgresql)"
HUEY_ON_SQLITE = "huey (sqlite)"
PEERS = tuple(
    entry.label for entry in ENTRIES if entry.name not in (OURS, *YARDSTICKS) and entry.database != "sqlite"
)
"""On a server. Peers on SQLite are compared with Redrive on SQLite."""


@dataclass(frozen=True)
class Verdict:
    text: str
    value: float
    limit: float
    at_most: bool

    @property
    def met(self) -> bool:
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def __str__(self) -> str:
        bound = "at most" if self.at_most else "at least"
        return f"{'met   ' if self.met else 'MISSED'} {self.text}: {self.value:.2f}, {bound} {self.limit:g}"


class Targets:
    def __init__(self, results: Results) -> None:
        self._results = results
        self.verdicts = list(self._judged())

    @property
    def missed(self) -> list[str]:
        return [verdict.text for verdict in self.verdicts if not verdict.met]

    def _judged(self) -> Iterator[Verdict]:
        yield from self._on_postgresql()
        yield from self._on_sqlite()
        yield from self._on_both()

    def _on_postgresql(self) -> Iterator[Verdict]:
        ours, drain = OURS_ON_POSTGRESQL, "drain, 1 process"
        yield from self._ratio(drain, ours, PGQUEUER, 1.6)
        yield from self._ratio(drain, ours, MINIMAL_ON_POSTGRESQL, 0.65)
        yield from self._best(drain, ours, _without(PGQUEUER), 5.0)
        yield from self._ratio("drain, 2 processes", ours, PGQUEUER, 1.5)
        yield from self._ratio("enqueue bulk", ours, PGQUEUER, 1.35)
        yield from self._ratio("enqueue bulk", ours, MINIMAL_ON_POSTGRESQL, 0.55)
        yield from self._ratio("enqueue one", ours, PGQUEUER, 1.05)
        yield from self._ratio("enqueue one, 8 callers", ours, ours, 3.0, other_what="enqueue one")
        yield from self._best("fail once", ours, PEERS, 2.0)
        yield from self._best("fail for good", ours, PEERS, 1.3)
        yield from self._ratio("workflow", ours, DBOS, 100.0)
        yield from self._best("workflow", ours, _without(DBOS), 10.0)
        yield from self._ratio("pick-up, p50", ours, RAW_ON_POSTGRESQL, 1.4, at_most=True)
        yield from self._figure("pick-up, p99", ours, 10.0)
        yield from self._ratio("drain, snapshot held", ours, ours, 0.5, other_what="drain, no snapshot")

    def _on_sqlite(self) -> Iterator[Verdict]:
        ours = OURS_ON_SQLITE
        yield from self._ratio("drain, 1 process", ours, HUEY_ON_SQLITE, 6.0)
        yield from self._ratio("fail for good", ours, HUEY_ON_SQLITE, 3.0)
        yield from self._ratio("enqueue one", ours, RAW_ON_SQLITE, 0.5)
        yield from self._figure("pick-up, p50", ours, 8.0)

    def _on_both(self) -> Iterator[Verdict]:
        for ours in (OURS_ON_POSTGRESQL, OURS_ON_SQLITE):
            yield from self._figure("memory", ours, 150.0)
            yield from self._figure("disk", ours, 700.0)
            yield from self._ratio("drain, long backlog", ours, ours, 0.9, other_what="drain, short backlog")
            for what in ("enqueue bulk, growth", "drain, 1 process, growth"):
                for case in self._results.figures.get(what, {}):
                    if case.startswith(ours) and not case.endswith(EMPTY):
                        yield from self._ratio(what, f"{ours}, {EMPTY}", case, 1.2, at_most=True)

    def _best(self, what: str, who: str, peers: Sequence[str], limit: float) -> Iterator[Verdict]:
        """Compare with the fastest peer."""
        medians = {peer: self._results.median(what, peer) or 0.0 for peer in peers}
        yield from self._ratio(what, who, max(medians, key=medians.__getitem__), limit)

    def _ratio(
        self, what: str, who: str, other: str, limit: float, *, other_what: str = "", at_most: bool = False
    ) -> Iterator[Verdict]:
        value = self._results.median(what, who)
        base = self._results.median(other_what or what, other)
        if value is not None and base:
            than = f"{other}, {other_what}" if other_what else other
            yield Verdict(f"{what}: {who} / {than}", value / base, limit, at_most)

    def _figure(self, what: str, who: str, limit: float) -> Iterator[Verdict]:
        value = self._results.median(what, who)
        if value is not None:
            yield Verdict(f"{what}: {who}", value, limit, at_most=True)


def _without(label: str) -> list[str]:
    return [peer for peer in PEERS if peer != label]
