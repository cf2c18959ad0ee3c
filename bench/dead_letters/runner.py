"""Runs the measurements of a plan in turn. Reports failed measurements and leaves them out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from bench.dead_letters.ablation import VARIANTS
from bench.dead_letters.measurement import Order
from bench.dead_letters.plan import Plan
from bench.work import measurement, runner
from bench.work.runner import Results
from bench.work.servers import Places

TIMEOUT = 3_600.0
EMPTY, FILLED = "empty", "filled"
PGQUEUER = "pgqueuer (postgresql)"
_FILLED_NAME = "letters"


@dataclass(frozen=True)
class Runner:
    """Runs measurements. `beside` is a checkout of an earlier version, whose benchmark replays in turn."""

    plan: Plan
    database: str
    there: Places
    results: Results
    beside: Path | None = None

    def run(self) -> None:
        """Run everything that the plan contains for one database."""
        for _ in range(self.plan.repetitions):
            if "bury" in self.plan.groups:
                self._bury()
            if "replay" in self.plan.groups:
                self._replay()
        if {"read", "growth"} & set(self.plan.groups):
            self._with_many_letters()

    def _bury(self) -> None:
        for variant in VARIANTS:
            self._take(self._order("bury", variant=variant))
        if self.database == "postgresql":
            url, seconds = self.there.fresh(self.database), self.plan.seconds
            self._take_of_work(measurement.Order("fail for good", PGQUEUER, url, seconds), "fail for good")

    def _replay(self) -> None:
        for what in ("plain work", "replay, many"):
            self._take(self._order(what, number=self.plan.replays))
            if self.beside is not None:
                self._take(self._order(what, number=self.plan.replays), self.beside)
        self._take(self._order("replay, one", number=self.plan.singles))
        self._take(self._order("replay, one, 8 callers", number=self.plan.singles))

    def _with_many_letters(self) -> None:
        url = self.there.fresh(self.database, _FILLED_NAME)
        fill = Order("fill", self.database, url, number=self.plan.letters, groups=self.plan.failures)
        if self._take(fill):
            self.there.settle(self.database)
            if "read" in self.plan.groups:
                self._take(replace(fill, what="read", number=self.plan.times))
            if "growth" in self.plan.groups:
                self._grow(url)
        self.there.drop(self.database, _FILLED_NAME)

    def _grow(self, filled: str) -> None:
        for _ in range(self.plan.repetitions):
            for case, url in ((EMPTY, self.there.fresh(self.database)), (FILLED, filled)):
                self.there.settle(self.database)
                order = measurement.Order("grown", f"redrive ({self.database})", url, self.plan.seconds, case)
                self._take_of_work(order, case)

    def _order(self, what: str, *, variant: str = "", number: int = 0) -> Order:
        url = self.there.fresh(self.database)
        return Order(what, self.database, url, self.plan.seconds, variant, number)

    def _take(self, order: Order, checkout: Path | None = None) -> bool:
        label = order.label if checkout is None else label_of(checkout, order.database)
        figures = run(order, label, self.results, checkout)
        for name, figure in figures.items():
            self.results.add(name, label, figure)
        return bool(figures)

    def _take_of_work(self, order: measurement.Order, case: str) -> None:
        """Run a measurement of `bench.work`."""
        for name, figure in runner.run(order, self.results).items():
            self.results.add(name if name == case else f"{name}, {case}", order.label, figure)


def label_of(checkout: Path, database: str) -> str:
    return f"{checkout.name} ({database})"


def run(order: Order, label: str, results: Results, checkout: Path | None) -> dict[str, float]:
    """Run a measurement of this version, or of another checkout that has the program."""
    command = [sys.executable, "-m", "bench.dead_letters.measurement", order.line]
    there = None
    if checkout is not None:
        there = os.environ | {"PYTHONPATH": f"{checkout.resolve()}{os.pathsep}{checkout.resolve() / 'src'}"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=checkout, env=there
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it has ended without a word"])[-1][:300]
        results.left_out[f"{label}, {order.what} {order.variant}".strip()] = why
        print(f"{order.what:<44}{label:<24}left out: {why}", flush=True)
        return {}
    figures: dict[str, float] = json.loads(done.stdout)
    for name, figure in figures.items():
        print(f"{name:<76}{label:<24}{figure:>12,.1f}", flush=True)
    return figures
