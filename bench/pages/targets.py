"""The targets: milliseconds that a person waits, and kilobytes of a browser's first load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from bench.pages.call_times import CallTimes
from bench.pages.page_times import PageTimes

PAGE = 150.0
CALL = 150.0
NOTABLE = 30.0
"""Pages make several calls: slower calls are marked."""
REFUSAL = 12_000.0
"""Two statements that are stopped after five seconds, plus the rest of the page."""
FIRST_LOAD = 160_000
_CURSOR = re.compile(r"cursor=[^&]+")


class Judged(NamedTuple):
    """A row of the table; `verdict` names the problem, and is empty if there is none."""

    name: str
    figures: str
    verdict: str


def of_page(page: PageTimes) -> Judged:
    timed = page.timed
    times = f"{_times(timed.half, timed.most, timed.first)}{page.spent:>10.1f}"
    figures = f"{times}{page.plain:>10,}{page.transferred:>9,}"
    return Judged(_CURSOR.sub("cursor=…", page.address.path), figures, _wrong(page))


def _wrong(page: PageTimes) -> str:
    if page.refused:
        return "" if page.timed.half <= REFUSAL else "refused too late"
    if page.status != 200:
        return f"status {page.status}"
    return "over budget" if page.timed.half > (PAGE if page.address.quick else REFUSAL) else ""


def of_call(call: CallTimes) -> Judged:
    if call.timed is None:
        return Judged(call.call.name, "stopped", "over budget" if call.call.quick else "")
    half, most, first = call.timed.half, call.timed.most, call.timed.first
    mark = " *" if half > NOTABLE else ""
    wrong = "over budget" if call.call.quick and half > CALL else ""
    return Judged(call.call.name, _times(half, most, first) + mark, wrong)


def of_load(path: str, loaded: Mapping[str, int]) -> Judged:
    total = sum(loaded.values())
    figures = f"{total:>10,} bytes in {len(loaded)} requests"
    return Judged(f"first load of {path}", figures, "over budget" if total > FIRST_LOAD else "")


def _times(half: float, most: float, first: float) -> str:
    return f"{half:>10.1f}{most:>10.1f}{first:>10.1f}"
