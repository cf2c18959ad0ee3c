"""Runs orders in separate processes. Reports failed ones and leaves them out."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field

from bench.measure import Figure
from bench.work.contender import Entry
from bench.work.measurement import Order
from bench.work.plan import Plan, takes_part
from bench.work.servers import Places


@dataclass
class Results:
    """Figures by measurement and contender, and the failed measurements."""

    figures: dict[str, dict[str, Figure]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, who: str, value: float) -> None:
        self.figures.setdefault(what, {}).setdefault(who, Figure()).values.append(value)

    def median(self, what: str, who: str) -> float | None:
        figure = self.figures.get(what, {}).get(who)
        return None if figure is None else figure.median


def compare(plan: Plan, contenders: list[Entry], there: Places, results: Results) -> None:
    """Run all measurements of all contenders in turn."""
    for _ in range(plan.repetitions):
        for what in plan.measurements:
            for entry in contenders:
                if takes_part(entry, what) and f"{entry.label}, {what}" not in results.left_out:
                    order = plan.order(what, entry.label, there.fresh(entry.database))
                    for name, figure in run(order, results).items():
                        results.add(name, entry.label, figure)


def run(order: Order, results: Results) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.work.measurement", order.line]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=order.timeout, check=True)
    except subprocess.TimeoutExpired:
        return _left_out(order, f"not done in {order.timeout:g} s", results)
    except subprocess.CalledProcessError as error:
        return _left_out(order, error.stderr.strip().splitlines()[-1][:300], results)
    figures: dict[str, float] = json.loads(done.stdout)
    for name, figure in figures.items():
        print(f"{name:<26}{order.label:<28}{order.case:<22}{figure:>12,.1f}", flush=True)
    return figures


def _left_out(order: Order, why: str, results: Results) -> dict[str, float]:
    results.left_out[f"{order.label}, {order.what}"] = why
    print(f"{order.what:<26}{order.label:<28}{order.case:<22}left out: {why}", flush=True)
    return {}
