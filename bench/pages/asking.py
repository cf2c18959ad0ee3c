"""Times pages of a server, and weighs what a browser loads for the first time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.pages.addresses import ADMIN, LETTERS, Address, addresses
from bench.pages.browser import Answer, Browser
from bench.pages.examples import Examples
from bench.pages.timing import Timed

FIRST_LOADS = (ADMIN, LETTERS, f"{LETTERS}?view=flat")
REFUSED = frozenset({422, 503, 504})
"""What a page may answer when a query would take too long: see redrive.server.failure."""


class Asked(NamedTuple):
    """`plain` and `transferred` are the bytes of the HTML."""

    address: Address
    status: int
    timed: Timed
    plain: int
    transferred: int

    @property
    def refused(self) -> bool:
        return not self.address.quick and self.status in REFUSED


def asked(browser: Browser, known: Examples, times: int, only: str = "") -> Iterator[Asked]:
    for address in addresses(known):
        if only in address.path:
            yield _asked(browser, address, times if address.quick else 1)


def _asked(browser: Browser, address: Address, times: int) -> Asked:
    answers = [browser.get(address.path) for _ in range(times + 2)]
    last = answers[-1]
    timed = Timed(_milliseconds(answers[0]), [_milliseconds(each) for each in answers[2:]])
    return Asked(address, last.status, timed, len(last.text.encode()), last.transferred)


def _milliseconds(answer: Answer) -> float:
    return answer.seconds * 1e3
