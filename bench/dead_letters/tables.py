"""What is printed at the end: figures of both databases beside each other, the targets, one line of JSON."""

from __future__ import annotations

import json

from bench.dead_letters.targets import Targets
from bench.work.running import Results


def print_table(results: Results) -> None:
    """Medians. Rates are per second; what is asked, and what says so, is in milliseconds."""
    columns = list(dict.fromkeys(label for row in results.figures.values() for label in row))
    print("\n" + f"{'median of all repetitions':<76}" + "".join(f"{label:>24}" for label in columns))
    for what, row in results.figures.items():
        shown = (f"{row[label].median:,.1f}" if label in row else "–" for label in columns)
        print(f"{what:<76}" + "".join(f"{figure:>24}" for figure in shown))


def print_end(results: Results, targets: Targets, circumstances: dict[str, str]) -> None:
    print("\ntargets")
    for verdict in targets.verdicts:
        print(f"  {verdict}")
    for what, why in results.left_out.items():
        print(f"  left out: {what}: {why}")
    medians = {
        what: {label: round(figure.median, 2) for label, figure in row.items()}
        for what, row in results.figures.items()
    }
    print()
    print(json.dumps({"results": medians, "missed": targets.missed, **circumstances}))
