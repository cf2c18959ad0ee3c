"""Fills a database unless it is already filled, and measures what the plan contains."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from bench.pages.browser import Browser
from bench.pages.call_times import call_times, known
from bench.pages.fill_database import fill
from bench.pages.page_times import FIRST_LOADS, page_times
from bench.pages.plan import Plan
from bench.pages.processor import Processor
from bench.pages.server import server
from bench.pages.targets import Judged, of_call, of_load, of_page
from bench.work.servers import Places

HEAD = f"{'median':>10}{'p95':>10}{'first':>10}"


@dataclass(frozen=True)
class Runner:
    plan: Plan
    database: str
    there: Places

    def run(self) -> list[Judged]:
        url = self._filled()
        self.there.settle(self.database)
        judged = []
        if "calls" in self.plan.groups:
            print(f"\n{self.database}, calls, ms{'':<52}{HEAD}")
            judged += [_shown(each) for each in asyncio.run(self._calls(url))]
        if "pages" in self.plan.groups:
            print(f"\n{self.database}, pages, ms{'':<52}{HEAD}{'processor':>10}{'HTML':>10}{'packed':>9}")
            judged += [_shown(each) for each in self._pages(url)]
        return judged

    def _filled(self) -> str:
        name = f"pages{self.plan.letters}"
        kept = self.there.kept(self.database, name)
        if kept is not None:
            return kept
        unfinished = f"{name}-unfinished"
        url = self.there.fresh(self.database, unfinished)
        seconds = asyncio.run(fill(url, self.plan.letters))
        print(f"{self.database}: filled in {seconds:.0f} s", flush=True)
        return self.there.rename(self.database, unfinished, name)

    async def _calls(self, url: str) -> list[Judged]:
        return [of_call(each) async for each in call_times(url, self.plan.times)]

    def _pages(self, url: str) -> Iterator[Judged]:
        examples = asyncio.run(known(url))
        with server(url) as running:
            browser = Browser(running.port)
            browser.sign_in(running.token)
            processor = Processor(running.process, url)
            yield from map(of_page, page_times(processor, browser, examples, self.plan.times))
            yield from (of_load(path, browser.load(path)) for path in FIRST_LOADS)


def _shown(row: Judged) -> Judged:
    print(f"{row.name:<72}{row.figures}  {row.verdict}".rstrip(), flush=True)
    return row
