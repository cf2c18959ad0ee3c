"""The display on the terminal: addresses, the guide, a status line, and the summary at the end."""

from __future__ import annotations

import shlex
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

STATUS_SECONDS = 30.0
"""Between two status lines where the output is no terminal and nothing has changed."""

LINK_SECONDS = 3000.0


class DemoAddresses(NamedTuple):
    """`path` is the folder of `redrive`, if other shells need it; `fix` is a command that repairs Acme."""

    pages: str
    link: str
    outside: str
    database_url: str
    path: str
    fix: str

    @property
    def preparation(self) -> str:
        """The command that prepares another shell for all the others."""
        path = f'PATH={shlex.quote(self.path)}:"$PATH" ' if self.path else ""
        return f"export {path}REDRIVE_DATABASE_URL='{self.database_url}'"


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
        self._link_at = self._started_at

    def listen(self, line: str) -> None:
        """Take a line of the server: which step of the guide was seen."""
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
        """Print everything once, then only what has changed, and the status from time to time."""
        head = list(self._text.head(self._addresses))
        if head != self._head:
            for line in ("Sign in once more with", self._addresses.link) if self._head else head:
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
        """Show another link once the old one has expired or was used: a link signs in once."""
        failures = self._app.failures(by="demo")
        entries = (await failures.audit.list(action=Action.SESSION_STARTED, size=1)).entries
        newest = entries[0].sequence if entries else 0
        if newest != self._newest_sign_in or time.monotonic() - self._link_at > LINK_SECONDS:
            self._newest_sign_in, self._link_at = newest, time.monotonic()
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
        yield self._paint(BOLD, "Acme is open for business") + self._paint(DIM, "  Ctrl-C ends it")
        yield ""
        yield self._paint(DIM, "Sign in to the pages, once, with")
        yield addresses.link
        yield self._paint(DIM, "Break and repair what Acme depends on at")
        yield addresses.outside
        yield self._paint(DIM, "In another terminal, first")
        yield addresses.preparation
        yield ""

    def guide(
        self, progress: GuideProgress, done: tuple[bool, ...], addresses: DemoAddresses
    ) -> Iterator[str]:
        """The steps with their commands. The demo can't see what a terminal shows, so FIX has its own."""
        current = done.index(False) if False in done else len(done)
        for number, title in enumerate(TITLES):
            if done[number]:
                yield f" {self._paint(GREEN, '✓')} {number + 1}  {self._paint(DIM, title)}"
                continue
            mark, style = (self._paint(YELLOW, "→"), BOLD) if number == current else (" ", "")
            yield f" {mark} {number + 1}  {self._paint(style, title) if style else title}"
            if number == current:
                yield f"      {self._paint(DIM, _explanation(number, progress))}"
            if progress.group and (number <= max(current, FIX) or (number == WATCH and progress.operation)):
                yield f"      {_command(number, progress, addresses)}"
        if current == len(done):
            yield self._paint(
                DIM, "      Nothing was lost or done twice. Break something yourself, or stage failures:"
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
            *(("no more work arrives",) if totals.runs >= MAX_RUNS else ()),
        ]
        return "  ".join(parts)

    def trouble(self, totals: DemoTotals) -> str:
        """Services with a fault, or else breakers that recover, and the runs they hold; empty if none."""
        down, probed = " and ".join(totals.down), [name for name in totals.open if name not in totals.down]
        held = f"; {totals.held} {'run waits' if totals.held == 1 else 'runs wait'}" if totals.held else ""
        if down:
            return self._paint(RED, f"{down} {'is' if len(totals.down) == 1 else 'are'} broken{held}")
        return self._paint(YELLOW, f"{' and '.join(probed)} recovers{held}") if probed else ""

    def summary(self, found: DemoSummary, fate: str) -> Iterator[str]:
        """`fate` is what happens to the database."""
        yield self._paint(BOLD, "Acme is closed")
        for name, number, remark in (
            ("runs started", found.started, ""),
            ("done", found.done, ""),
            ("dead letters", found.letters, fate),
            ("not finished yet", found.unfinished, "another worker would continue with them"),
            ("lost", found.lost, "every run that was started was looked for"),
            ("broken promises", found.wrong, "as redrive verify finds them"),
            ("cards charged", found.charged, f"{found.charged_twice} of them twice"),
        ):
            yield f"  {name:<18}{number:>7,}  {self._paint(DIM, remark)}".rstrip()


def _explanation(number: int, progress: GuideProgress) -> str:
    planned = "The plan is ready; nothing has run yet."
    plan = f"Make a plan: {CANARY} of them first, the others when these succeed."
    return {
        SEE: "Equal failures are one group. Norway has no shipping zone: that is one of them.",
        UNDERSTAND: f"{progress.live} orders were charged and have no label: see why they stopped.",
        FIX: "Give Norway a zone: at the address above, or by hand. (1 and 2 only look.)",
        REPLAY: planned if progress.operation else plan,
    }.get(number, f"{progress.live} are left. Each continues where it stopped.")


def _command(number: int, progress: GuideProgress, addresses: DemoAddresses) -> str:
    operation = progress.operation
    return {
        SEE: "redrive dlq groups",
        UNDERSTAND: f"redrive dlq view {progress.letter}",
        FIX: addresses.fix,
        REPLAY: f"redrive replay start {operation}" if operation else plan_command(progress.group),
    }.get(number, f"redrive replay watch {operation}")
