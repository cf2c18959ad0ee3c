"""Measuring side by side: all contenders take turns within one run, and only ratios count."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

Work = Callable[[], Any]
AsyncWork = Callable[[], Awaitable[Any]]


@dataclass
class Figure:
    """The values of one contender in one measurement, one per repetition."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def relative_spread(self) -> float:
        """Return (maximum - minimum) / median."""
        return (max(self.values) - min(self.values)) / self.median if self.median else 0.0

    @property
    def spread(self) -> str:
        return f"{min(self.values):.2f} … {max(self.values):.2f}"


def overheads(bare: Work, contenders: dict[str, Work], *, calls: int, repetitions: int) -> dict[str, Figure]:
    """Time the bare call and every contender in turn, in each repetition."""

    def seconds(work: Work) -> float:
        started = perf_counter()
        for _ in range(calls):
            work()
        return perf_counter() - started

    figures = {name: Figure() for name in contenders}
    for repetition in range(repetitions + 1):
        base = seconds(bare)
        for name, work in contenders.items():
            overhead = (seconds(work) - base) / calls * 1e6
            if repetition:  # the first repetition warms up
                figures[name].values.append(overhead)
    return figures


def async_overheads(
    bare: AsyncWork, contenders: dict[str, AsyncWork], *, calls: int, repetitions: int
) -> dict[str, Figure]:
    async def seconds(work: AsyncWork) -> float:
        started = perf_counter()
        for _ in range(calls):
            await work()
        return perf_counter() - started

    async def measure() -> dict[str, Figure]:
        figures = {name: Figure() for name in contenders}
        for repetition in range(repetitions + 1):
            base = await seconds(bare)
            for name, work in contenders.items():
                overhead = (await seconds(work) - base) / calls * 1e6
                if repetition:
                    figures[name].values.append(overhead)
        return figures

    return asyncio.run(measure())


class Report:
    """Prints tables, collects the targets, and ends with one line of JSON and the exit code."""

    def __init__(self) -> None:
        self.results: dict[str, dict[str, float]] = {}
        self.missed: list[str] = []

    def table(self, title: str, unit: str, figures: dict[str, Figure], ours: str) -> None:
        self.results[title] = {name: round(each.median, 3) for name, each in figures.items()}
        print(f"\n{title} ({unit})")
        for name, figure in sorted(figures.items(), key=lambda item: item[1].median):
            ratio = figure.median / figures[ours].median if figures[ours].median > 0 else float("inf")
            print(f"  {name:<24}{figure.median:>9.2f}   [{figure.spread}]   {ratio:.1f}× ours")

    def target(self, text: str, value: float, limit: float) -> None:
        """Check a ratio against its limit."""
        met = value <= limit
        print(f"  {'met   ' if met else 'MISSED'} {text}: {value:.3f}, at most {limit:.3f}")
        if not met:
            self.missed.append(text)

    def end(self) -> None:
        print()
        print(json.dumps({"results": self.results, "missed": self.missed}))
        sys.exit(bool(self.missed))
