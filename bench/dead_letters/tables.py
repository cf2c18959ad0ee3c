"""The output: figures of both databases side by side, the targets, one line of JSON."""

from __future__ import annotations

from bench.work.runner import Results


def print_table(results: Results) -> None:
    """Print medians. Rates are per second; query times, and rows marked so, are in milliseconds."""
    columns = list(dict.fromkeys(label for row in results.figures.values() for label in row))
    print("\n" + f"{'median of all repetitions':<76}" + "".join(f"{label:>24}" for label in columns))
    for what, row in results.figures.items():
        shown = (f"{row[label].median:,.1f}" if label in row else "–" for label in columns)
        print(f"{what:<76}" + "".join(f"{figure:>24}" for figure in shown))
