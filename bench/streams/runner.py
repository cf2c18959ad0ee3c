"""Runs the measurements in turns; one that fails is left out, and why is said."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from bench.streams import measurement
from bench.streams.contender import BARE, ORDERED, OURS, PROJECTING, Entry, entry
from bench.streams.plan import Plan
from bench.streams.targets import DRAIN, INGEST, PENDING, PROJECT
from bench.work.runner import Results
from bench.work.servers import Places

Measure = Callable[[str, str], float]


class Runner:
    def __init__(self, plan: Plan, there: Places, results: Results) -> None:
        self._plan = plan
        self._there = there
        self._results = results

    def run(self, groups: Collection[str], chosen: list[Entry]) -> None:
        for _ in range(self._plan.repetitions):
            for contender in chosen if "ingest" in groups or "pending" in groups else ():
                self._ingest(contender)
            if "project" in groups:
                self._project()
            if "pending" in groups:
                self._pending()

    def _ingest(self, contender: Entry) -> None:
        count = self._count(contender)
        self._add(INGEST, contender.label, partial(measurement.ingest, contender, count, 0))

    def _project(self) -> None:
        for label in (PROJECTING, ORDERED):
            count = self._count(entry(label))
            self._add(PROJECT, label, partial(measurement.project, label, count))
        self._add(PROJECT, DRAIN, partial(measurement.drain, self._count(entry(PROJECTING))))

    def _pending(self) -> None:
        for label in (OURS, BARE):
            contender = entry(label)
            measure = partial(measurement.ingest, contender, self._count(contender), self._plan.pending)
            self._add(PENDING, label, measure)

    def _count(self, contender: Entry) -> int:
        return int(contender.pace * self._plan.seconds)

    def _add(self, what: str, who: str, measure: Measure) -> None:
        if f"{who}, {what}" in self._results.left_out:
            return
        try:
            figure = measure(self._there.fresh("postgresql"), self._there.fresh("redis"))
        except Exception as error:  # noqa: BLE001 — one contender must not end the comparison
            self._results.left_out[f"{who}, {what}"] = str(error).strip().splitlines()[-1][:300]
            print(f"{what:<26}{who:<34}left out: {error}", flush=True)
            return
        self._results.add(what, who, figure)
        print(f"{what:<26}{who:<34}{figure:>12,.1f}", flush=True)
