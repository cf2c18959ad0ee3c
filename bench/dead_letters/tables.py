"""What is printed at the end: figures of both databases beside each other, the targets, one line of JSON."""

from __future__ import annotations

from bench.work.runner import Results


def print_table(results: Results) -> None:
    """Medians. Rates are per second; what is asked, and what says so, is in milliseconds."""
    columns = list(dict.fromkeys(label for row in results.figures.values() for label in row))
    print("\n" + f"{'median of all repetitions':<76}" + "".join(f"{label:>24}" for label in columns))
    for what, row in results.figures.items():
        shown = (f"{row[label].median:,.1f}" if label in row else "–" for label in columns)
        print(f"{what:<76}" + "".join(f"{figure:>24}" for figure in shown))
