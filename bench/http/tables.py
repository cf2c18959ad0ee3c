"""The output: both servers side by side, one row for each measurement."""

from __future__ import annotations

from collections.abc import Sequence

from bench.http.plan import Plan
from bench.http.runner import EFFORT, RATIO, UNITS, name_of
from bench.http.servers import BARE, OURS
from bench.work.runner import Results

COLUMNS = (*UNITS.values(), EFFORT)


def print_tables(results: Results, plan: Plan, databases: Sequence[str]) -> None:
    """Print medians of all turns; the last column is the median of the ratios of neighboring turns."""
    for database in databases:
        print(f"\n{database + ', ours / bare':<34}" + "".join(f"{each:>20}" for each in COLUMNS), RATIO)
        for case in plan.cases:
            for connections in plan.connections:
                _print_row(results, name_of(case, connections), database)


def _print_row(results: Results, what: str, database: str) -> None:
    ratio = results.median(what, f"{RATIO} ({database})")
    if ratio is None:
        return
    cells = []
    for text in COLUMNS:
        ours, bare = (results.median(f"{what}, {text}", f"{who} ({database})") for who in (OURS, BARE))
        cells.append(f"{ours:,.1f} / {bare:,.1f}")
    print(f"{what:<34}" + "".join(f"{cell:>20}" for cell in cells), f"{ratio:>7.2f}")
