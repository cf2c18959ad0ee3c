"""Times the pages of a server, and measures the size of a browser's first load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.pages.addresses import ADMIN, LETTERS, RUNS, Address, addresses
from bench.pages.browser import Answer, Browser
from bench.pages.examples import Examples
from bench.pages.processor import Processor
from bench.pages.times import Times

FIRST_LOADS = (ADMIN, f"{ADMIN}?span=7d", RUNS, LETTERS, f"{LETTERS}?view=flat", f"{ADMIN}/audit")
REFUSED = frozenset({422, 503, 504})
"""Statuses for a query that would take too long: see redrive.server.problem."""


class PageTimes(NamedTuple):
    """The times of a page. `plain` and `transferred` are bytes of HTML, `spent` processor milliseconds."""

    address: Address
    status: int
    timed: Times
    plain: int
    transferred: int
    spent: float

    @property
    def refused(self) -> bool:
        return not self.address.quick and self.status in REFUSED


def page_times(
    processor: Processor, browser: Browser, known: Examples, times: int, only: str = ""
) -> Iterator[PageTimes]:
    for address in addresses(known):
        if only in address.path:
            yield _page_times(processor, browser, address, times if address.quick else 1)


def _page_times(processor: Processor, browser: Browser, address: Address, times: int) -> PageTimes:
    first, _ = (browser.get(address.path) for _ in range(2))
    processor.milliseconds()
    answers = [browser.get(address.path) for _ in range(times)]
    spent, last = processor.milliseconds() / times, answers[-1]
    timed = Times(_milliseconds(first), [_milliseconds(each) for each in answers])
    return PageTimes(address, last.status, timed, len(last.text.encode()), last.transferred, spent)


def _milliseconds(answer: Answer) -> float:
    return answer.seconds * 1e3
