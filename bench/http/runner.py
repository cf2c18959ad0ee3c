"""Runs the measurements of a plan in separate processes. Reports failed ones and leaves them out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.http.measurement import Order
from bench.http.plan import Plan
from bench.http.servers import BARE, OURS, Server, servers
from bench.work.runner import Results
from bench.work.servers import Places

FILLING_TIMEOUT = 3_600.0
RATIO = "of bare"
UNITS = {"rate": "per second", "half": "p50, ms", "most": "p99, ms"}
EFFORT = "processor, µs"


@dataclass(frozen=True)
class Runner:
    plan: Plan
    database: str
    there: Places
    results: Results

    def run(self) -> None:
        url = self.there.fresh(self.database)
        arguments = (url, str(self.plan.letters))
        prepared = self._said("preparing", "bench.http.prepare_database", arguments, FILLING_TIMEOUT)
        if prepared is not None:
            self.there.settle(self.database)
            with servers(url) as running:
                self._measure(prepared, running)
        self.there.drop(self.database, "bench")

    def _measure(self, known: Any, running: Mapping[str, Server]) -> None:
        plan = self.plan
        for case in plan.cases:
            for connections in plan.connections:
                order = Order(case, running, known, connections, plan.seconds, plan.rounds)
                what, timeout = name_of(case, connections), 60.0 + 10.0 * plan.seconds * plan.rounds
                seen = self._said(what, "bench.http.measurement", (order.line,), timeout)
                if seen is not None:
                    self._add(what, seen)

    def _add(self, what: str, seen: Mapping[str, Mapping[str, Any]]) -> None:
        for who, figures in seen.items():
            for unit, text in UNITS.items():
                for value in figures[unit]:
                    self.results.add(f"{what}, {text}", self.label(who), value)
            effort = figures["spent"] / figures["number"] * 1e6
            self.results.add(f"{what}, {EFFORT}", self.label(who), effort)
        for ours, bare in zip(seen[OURS]["rate"], seen[BARE]["rate"], strict=True):
            self.results.add(what, self.label(RATIO), ours / bare)
        ratio = self.results.median(what, self.label(RATIO))
        print(f"{what:<40}{self.database:<12}{ratio:>8.2f} {RATIO}", flush=True)

    def label(self, who: str) -> str:
        return f"{who} ({self.database})"

    def _said(self, what: str, module: str, arguments: Sequence[str], timeout: float) -> Any:
        command = [sys.executable, "-m", module, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return self._left_out(what, f"not done in {timeout:g} s")
        if done.returncode:
            words = done.stderr.strip().splitlines() or ["it has ended without a word"]
            return self._left_out(what, words[-1][:300])
        return json.loads(done.stdout)

    def _left_out(self, what: str, why: str) -> None:
        self.results.left_out[f"{what} ({self.database})"] = why
        print(f"{what:<40}{self.database:<12}left out: {why}", flush=True)


def name_of(case: str, connections: int) -> str:
    return f"{case}, {connections} connection{'s' if connections > 1 else ''}"
