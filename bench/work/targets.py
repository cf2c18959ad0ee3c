"""The targets: ratios within one run, met or missed. What was not measured is not judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.work.contender import ENTRIES, OURS, RAW, YARDSTICKS
from bench.work.growth import EMPTY
from bench.work.running import Results

OURS_ON_POSTGRESQL = f"{OURS} (postgresql)"
OURS_ON_SQLITE = f"{OURS} (sqlite)"
RAW_ON_POSTGRESQL = f"{RAW} (postgresql)"
RAW_ON_SQLITE = f"{RAW} (sqlite)"
PGQUEUER = "pgqueuer (postgresql)"
PEERS = tuple(entry.label for entry in ENTRIES if entry.name not in (OURS, *YARDSTICKS))
PEERS_ON_A_SERVER = tuple(label for label in PEERS if not label.endswith("(sqlite)"))


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
        yield from self._growth()

    def _on_postgresql(self) -> Iterator[Verdict]:
        ours, drain = OURS_ON_POSTGRESQL, "drain, 1 process"
        yield from self._ratio(drain, ours, PGQUEUER, 1.2)
        for peer in PEERS_ON_A_SERVER:
            if peer != PGQUEUER:
                yield from self._ratio(drain, ours, peer, 3.0)
        yield from self._ratio(drain, ours, RAW_ON_POSTGRESQL, 0.5)
        yield from self._ratio("drain, 2 processes", ours, ours, 1.3, other_what=drain)
        yield from self._ratio("enqueue bulk", ours, PGQUEUER, 1.2)
        yield from self._ratio("enqueue bulk", ours, RAW_ON_POSTGRESQL, 0.6)
        yield from self._ratio("enqueue one", ours, RAW_ON_POSTGRESQL, 0.9)
        yield from self._ratio("enqueue one, 8 callers", ours, ours, 3.0, other_what="enqueue one")
        for peer in PEERS_ON_A_SERVER:
            yield from self._ratio("fail once", ours, peer, 1.5)
            yield from self._ratio("fail for good", ours, peer, 1.2)
            yield from self._ratio("workflow", ours, peer, 40.0 if peer.startswith("dbos") else 5.0)
        yield from self._ratio("pick-up, p50", ours, RAW_ON_POSTGRESQL, 1.5, at_most=True)
        yield from self._figure("pick-up, p99", ours, 10.0)
        yield from self._figure("memory", ours, 150.0)

    def _on_sqlite(self) -> Iterator[Verdict]:
        for what in ("drain, 1 process", "workflow"):
            yield from self._ratio(what, OURS_ON_SQLITE, "huey (sqlite)", 3.0)
        yield from self._ratio("enqueue bulk", OURS_ON_SQLITE, RAW_ON_SQLITE, 0.4)
        yield from self._figure("memory", OURS_ON_SQLITE, 150.0)

    def _growth(self) -> Iterator[Verdict]:
        for ours in (OURS_ON_POSTGRESQL, OURS_ON_SQLITE):
            for what in ("enqueue bulk, growth", "drain, 1 process, growth"):
                for case in self._results.figures.get(what, {}):
                    if case.startswith(ours) and not case.endswith(EMPTY):
                        yield from self._ratio(what, f"{ours}, {EMPTY}", case, 1.3, at_most=True)

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
