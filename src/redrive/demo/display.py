"""The demo's terminal output: addresses, the guide, a status line, and the summary at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from redrive.app import Redrive
from redrive.demo.figures import DemoSummary, DemoTotals, read_totals
from redrive.demo.folder import ShippingZones
from redrive.demo.guide import (
    CANARY,
    FIX,
    REPLAY,
    SEE,
    SEEN,
    TITLES,
    UNDERSTAND,
    WATCH,
    GuideProgress,
    plan_command,
    read_progress,
)
from redrive.demo.screen import BOLD, DIM, GREEN, RED, YELLOW, DemoScreen
from redrive.demo.traffic import MAX_RUNS
from redrive.demo.world import World
from redrive.model.audit import Action
from redrive.words.number import noun, plural

STATUS_SECONDS = 30.0
"""Pause between two status lines when the output is not a terminal and nothing has changed."""

LINK_SECONDS = 3000.0


class DemoAddresses(NamedTuple):
    """The addresses and commands that the display shows.

    link         signs in to the admin pages, once
    outside      the page that breaks and repairs Acme's services
    preparation  the command to run first in another shell
    fix          a command that repairs Acme
    """

    pages: str
    link: str
    outside: str
    preparation: str
    fix: str


class Display:
    def __init__(
        self, screen: DemoScreen, app: Redrive, world: World, zones: ShippingZones, addresses: DemoAddresses
    ) -> None:
        self._screen = screen
        self._text = DisplayText(screen)
        self._app = app
        self._world = world
        self._zones = zones
        self._addresses = addresses
        self._started_at = time.monotonic()
        self._seen: frozenset[int] = frozenset()
        self._head: list[str] = []
        self._position: object = None
        self._status_at = 0.0
        self._down: tuple[str, ...] = ()
        self._newest_sign_in = 0
        self._link_created_at = self._started_at

    def listen(self, line: str) -> None:
        """Read a line from the server; it reports which step of the guide was seen."""
        if line.startswith(SEEN):
            self._seen |= {int(line.removeprefix(SEEN))}

    async def update(self) -> None:
        totals = await read_totals(self._app, self._world)
        progress = await read_progress(self._app, self._zones)
        await self._renew_link()
        if self._screen.live:
            self._draw(totals, progress)
        else:
            self._print(totals, progress)

    def _draw(self, totals: DemoTotals, progress: GuideProgress) -> None:
        text = self._text
        head = list(text.head(self._addresses))
        guide = text.guide(progress, progress.done(self._seen), self._addresses)
        body = [*guide, text.status(totals, self._seconds), text.trouble(totals)]
        if self._screen.has_room(len(head) + len(body)):
            self._screen.draw([*head, *body])
            return
        if head != self._head:
            for line in head:
                self._screen.say(line)
            self._head = head
        self._screen.draw(body)

    def _print(self, totals: DemoTotals, progress: GuideProgress) -> None:
        """Print everything once, then only changes, and the status from time to time."""
        head = list(self._text.head(self._addresses))
        if head != self._head:
            for line in ("New sign-in link (works once):", self._addresses.link) if self._head else head:
                self._screen.say(line)
            self._head = head
        done = progress.done(self._seen)
        position = (done, progress.letter, progress.operation)
        changed = bool(progress.group) and position != self._position
        if changed:
            for line in self._text.guide(progress, done, self._addresses):
                self._screen.say(line)
            self._position = position
        if changed or totals.down != self._down or self._seconds - self._status_at >= STATUS_SECONDS:
            status = (self._text.status(totals, self._seconds), self._text.trouble(totals))
            self._screen.say("  ".join(filter(None, status)))
            self._status_at, self._down = self._seconds, totals.down

    async def _renew_link(self) -> None:
        """Create a new sign-in link after the old one was used or is about to expire."""
        failures = self._app.failures(by="demo")
        entries = (await failures.audit.list(action=Action.SESSION_STARTED, size=1)).entries
        newest = entries[0].sequence if entries else 0
        if newest != self._newest_sign_in or time.monotonic() - self._link_created_at > LINK_SECONDS:
            self._newest_sign_in, self._link_created_at = newest, time.monotonic()
            link = await sign_in_link(self._app, self._addresses.pages)
            self._addresses = self._addresses._replace(link=link)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started_at


async def sign_in_link(app: Redrive, pages: str) -> str:
    link = await app.members().sessions.embedded_link()
    return pages if link is None else f"{pages}/app/sign-in#{link.token}"


class DisplayText:
    """The lines of the display, styled for its screen."""

    def __init__(self, screen: DemoScreen) -> None:
        self._paint = screen.paint

    def head(self, addresses: DemoAddresses) -> Iterator[str]:
        yield self._paint(BOLD, "The Acme demo is running") + self._paint(DIM, "  Press Ctrl-C to stop it")
        yield ""
        yield self._paint(DIM, "Open the admin pages (this link signs you in once):")
        yield addresses.link
        yield self._paint(DIM, "Break and repair the services that Acme depends on:")
        yield addresses.outside
        yield self._paint(DIM, "To use the commands below, run this first in another terminal:")
        yield addresses.preparation
        yield ""

    def guide(
        self, progress: GuideProgress, done: tuple[bool, ...], addresses: DemoAddresses
    ) -> Iterator[str]:
        """Yield the steps. The steps up to FIX show their commands from the start.

        Only steps that are done have a mark. The demo can't see commands that only read, so it doesn't know
        which of the other steps the user is at.
        """
        current = done.index(False) if False in done else len(done)
        for number, title in enumerate(TITLES):
            if done[number]:
                yield f" {self._paint(GREEN, '✓')} {number + 1}  {self._paint(DIM, title)}"
            elif progress.group and (number <= max(current, FIX) or (number == WATCH and progress.operation)):
                yield f"   {number + 1}  {self._paint(BOLD, title)}"
                yield f"      {self._paint(DIM, _explanation(number, progress))}"
                yield f"      {_command(number, progress, addresses)}"
            else:
                yield f"   {number + 1}  {title}"
        if current == len(done):
            yield self._paint(
                DIM, "      Nothing was lost or done twice. Now break something yourself, or run the drills:"
            )
            yield "      redrive drill"
        yield ""

    def status(self, totals: DemoTotals, seconds: float) -> str:
        minutes, rest = divmod(int(seconds), 60)
        parts = [
            self._paint(DIM, f"{minutes:02}:{rest:02}"),
            f"{totals.runs:,} runs",
            f"{totals.done:,} done",
            f"{totals.in_progress:,} in progress",
            f"{totals.letters:,} dead letters in {totals.groups} groups",
            *(("no new work arrives",) if totals.runs >= MAX_RUNS else ()),
        ]
        return "  ".join(parts)

    def trouble(self, totals: DemoTotals) -> str:
        """Name the broken services, or else the recovering breakers, and count the runs on hold."""
        recovering = [name for name in totals.open if name not in totals.down]
        held = f"; {plural(totals.held, 'run')} on hold" if totals.held else ""
        if totals.down:
            verb = noun(len(totals.down), "is", "are")
            return self._paint(RED, f"{' and '.join(totals.down)} {verb} broken{held}")
        if recovering:
            verb = noun(len(recovering), "is", "are")
            return self._paint(YELLOW, f"{' and '.join(recovering)} {verb} recovering{held}")
        return ""

    def summary(self, summary: DemoSummary, database: str) -> Iterator[str]:
        """`database` says what happens to the database and its dead letters."""
        yield self._paint(BOLD, "The Acme demo has stopped")
        for name, number, remark in (
            ("runs started", summary.started, ""),
            ("done", summary.done, ""),
            ("dead letters", summary.letters, database),
            ("not finished yet", summary.unfinished, "any worker could continue them"),
            ("lost", summary.lost, "the demo looked for every run that it had started"),
            ("broken promises", summary.wrong, "found by redrive verify"),
            ("cards charged", summary.charged, f"{summary.charged_twice} of them twice"),
        ):
            yield f"  {name:<18}{number:>7,}  {self._paint(DIM, remark)}".rstrip()


def _explanation(number: int, progress: GuideProgress) -> str:
    planned = "The plan is ready. Nothing has run yet."
    plan = f"Plan a replay: a canary of {CANARY} runs first, then the rest if the canary succeeds."
    return {
        SEE: "Redrive groups identical failures. In one group, orders to Norway have no shipping zone.",
        UNDERSTAND: f"{progress.live} orders were charged but have no label. Find out why they stopped.",
        FIX: "Add a zone for Norway, on the page above or with this command.",
        REPLAY: planned if progress.operation else plan,
    }.get(number, f"{progress.live} left. Each run continues at the step where it stopped.")


def _command(number: int, progress: GuideProgress, addresses: DemoAddresses) -> str:
    operation = progress.operation
    return {
        SEE: "redrive dlq groups",
        UNDERSTAND: f"redrive dlq view {progress.letter}",
        FIX: addresses.fix,
        REPLAY: f"redrive replay start {operation} --yes" if operation else plan_command(progress.group),
    }.get(number, f"redrive replay watch {operation}")
