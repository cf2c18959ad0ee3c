"""Cost growth: Redrive on a database with many rows of another kind, compared with an empty one."""

from __future__ import annotations

from bench.work.contender import OURS, Entry
from bench.work.fill_database import BURDENS
from bench.work.measurement import Order
from bench.work.plan import Plan
from bench.work.runner import Results, run
from bench.work.servers import Places

EMPTY = "empty"


def measure(plan: Plan, contenders: list[Entry], there: Places, results: Results) -> None:
    for entry in contenders:
        if entry.name == OURS:
            _measure(plan, entry, there, results)


def _measure(plan: Plan, entry: Entry, there: Places, results: Results) -> None:
    filled = _filled(plan, entry, there, results)
    for _ in range(plan.repetitions):
        _take(Order("grown", entry.label, there.fresh(entry.database), plan.seconds, EMPTY), results)
        for order in filled:
            there.settle(entry.database)
            _take(order, results)
    for order in filled:
        there.drop(entry.database, _name(order.burden, order.rows))


def _filled(plan: Plan, entry: Entry, there: Places, results: Results) -> list[Order]:
    """Return the orders for the databases that could be filled."""
    orders = []
    for rows in plan.rows:
        for burden in BURDENS:
            url = there.fresh(entry.database, _name(burden, rows))
            if run(Order("fill", entry.label, url, plan.seconds, burden, rows), results):
                orders.append(Order("grown", entry.label, url, plan.seconds, burden, rows))
    return orders


def _take(order: Order, results: Results) -> None:
    for name, figure in run(order, results).items():
        results.add(f"{name}, growth", f"{order.label}, {order.case}", figure)


def _name(burden: str, rows: int) -> str:
    return f"{burden}-{rows}"
