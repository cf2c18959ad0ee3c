"""The output: a table for each measurement, the targets, and one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from bench.measure import Figure
from bench.work.runner import Results
from bench.work.targets import Verdict

_UNITS = {"pick-up, p50": "ms", "pick-up, p99": "ms", "memory": "MB", "disk": "bytes per ended run"}
_SMALL_IS_GOOD = frozenset(_UNITS)


def print_tables(results: Results, unit: str = "jobs per second") -> None:
    for what, row in results.figures.items():
        print(
            f"\n{what} ({_UNITS.get(what, unit)}: median, spread = (most - least) / median, [least … most])"
        )
        ordered = sorted(row.items(), key=lambda item: item[1].median, reverse=what not in _SMALL_IS_GOOD)
        for label, figure in ordered:
            print(f"  {label:<44}{_shown(figure)}")


def print_end(results: Results, verdicts: Sequence[Verdict], circumstances: dict[str, str]) -> None:
    print("\ntargets")
    for verdict in verdicts:
        print(f"  {verdict}")
    for what, why in results.left_out.items():
        print(f"  left out: {what}: {why}")
    medians = _read(results, lambda figure: round(figure.median, 2))
    spreads = _read(results, lambda figure: round(figure.relative_spread, 3))
    missed = [verdict.text for verdict in verdicts if not verdict.met]
    print()
    print(json.dumps({"results": medians, "spreads": spreads, "missed": missed, **circumstances}))


def _read(results: Results, read: Callable[[Figure], float]) -> dict[str, dict[str, float]]:
    return {
        what: {label: read(figure) for label, figure in row.items()} for what, row in results.figures.items()
    }


def _shown(figure: Figure) -> str:
    least, most = min(figure.values), max(figure.values)
    return f"{figure.median:>12,.1f}{figure.relative_spread:>8.0%}   [{least:,.1f} … {most:,.1f}]"
