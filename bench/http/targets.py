"""The targets: the rate as a share of the bare server's, with enough connections to keep it busy."""

from __future__ import annotations

from collections.abc import Iterator

from bench.http.plan import DATABASES
from bench.http.runner import RATIO, name_of
from bench.work.runner import Results
from bench.work.targets import Verdict

CONNECTIONS = 64
WANTED = {
    "start": 0.8,
    "start with a key": 0.7,
    "list": 0.6,
    "list by a query": 0.6,
    "read one": 0.5,
    "who am I": 0.4,
    "refused": 0.4,
}


class Targets:
    def __init__(self, results: Results) -> None:
        self._results = results
        self.verdicts = [each for database in DATABASES for each in self._judged(database)]

    @property
    def missed(self) -> list[str]:
        return [verdict.text for verdict in self.verdicts if not verdict.met]

    def _judged(self, database: str) -> Iterator[Verdict]:
        for case, limit in WANTED.items():
            what = name_of(case, CONNECTIONS)
            ratio = self._results.median(what, f"{RATIO} ({database})")
            if ratio is not None:
                yield Verdict(f"{what}: redrive / bare ({database})", ratio, limit, at_most=False)
