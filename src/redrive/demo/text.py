"""The text on the terminal: addresses, the guided path, the status line, and the summary at the end."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from redrive.demo.figures import DemoSummary, DemoTotals
from redrive.demo.path import CANARY, FIX, REPLAY, SEE, TITLES, UNDERSTAND, WATCH, PathFacts, plan_command
from redrive.demo.screen import BOLD, DIM, GREEN, RED, YELLOW, DemoScreen
from redrive.demo.traffic import MAX_RUNS


class DemoAddresses(NamedTuple):
    """`path` is where `redrive` is, if a shell has to be told; `fix` is a command that repairs Acme."""

    pages: str
    link: str
    outside: str
    database_url: str
    path: str
    fix: str

    @property
    def preparation(self) -> str:
        """What to type before everything else, in a shell that knows nothing of the demo."""
        path = f'PATH={shlex.quote(self.path)}:"$PATH" ' if self.path else ""
        return f"export {path}REDRIVE_DATABASE_URL='{self.database_url}'"


class ScreenText:
    def __init__(self, screen: DemoScreen) -> None:
        self._paint = screen.paint
        self._screen = screen

    def head(self, where: DemoAddresses) -> Iterator[str]:
        yield self._paint(BOLD, "Acme is open for business") + self._paint(DIM, "  Ctrl-C ends it")
        yield ""
        yield self._paint(DIM, "Sign in to the pages, once, with")
        yield where.link
        yield self._paint(DIM, "Break and repair what Acme depends on at")
        yield where.outside
        yield self._paint(DIM, "In another terminal, first")
        yield where.preparation
        yield ""

    def path(self, facts: PathFacts, done: tuple[bool, ...], where: DemoAddresses) -> Iterator[str]:
        """The steps, each with what to type. Of looking nobody can know, so fixing stands beside it."""
        current = done.index(False) if False in done else len(done)
        for number, title in enumerate(TITLES):
            if done[number]:
                yield f" {self._paint(GREEN, '✓')} {number + 1}  {self._paint(DIM, title)}"
                continue
            mark, style = (self._paint(YELLOW, "→"), BOLD) if number == current else (" ", "")
            yield f" {mark} {number + 1}  {self._paint(style, title) if style else title}"
            if number == current:
                yield f"      {self._paint(DIM, self._about(number, facts))}"
            if facts.group and (number <= max(current, FIX) or (number == WATCH and facts.operation)):
                yield f"      {_command(number, facts, where)}"
        if current == len(done):
            yield self._paint(
                DIM, "      Nothing was lost or done twice. Break something yourself, or stage failures:"
            )
            yield "      redrive drill"
        yield ""

    def _about(self, number: int, facts: PathFacts) -> str:
        planned = "The plan is made; nothing has run yet."
        plan = f"Make a plan: {CANARY} of them first, the others when these went well."
        return {
            SEE: "Equal failures are one group. Norway has no shipping zone: that is one of them.",
            UNDERSTAND: f"{facts.live} orders were charged and have no label: see why they stopped.",
            FIX: "Give Norway a zone: at the address above, or by hand. (1 and 2 only look.)",
            REPLAY: planned if facts.operation else plan,
        }.get(number, f"{facts.live} are left. Each goes on where it stopped.")

    def status(self, now: DemoTotals, seconds: float) -> str:
        minutes, rest = divmod(int(seconds), 60)
        parts = [
            self._paint(DIM, f"{minutes:02}:{rest:02}"),
            f"{now.runs:,} runs",
            f"{now.done:,} done",
            f"{now.under_way:,} under way",
            f"{now.letters:,} dead letters in {now.groups} groups",
            *(("no more come",) if now.runs >= MAX_RUNS else ()),
        ]
        return "  ".join(parts)

    def trouble(self, now: DemoTotals) -> str:
        """What fails, and how much waits for it; or nothing."""
        down, probed = " and ".join(now.down), [name for name in now.open if name not in now.down]
        held = f"; {now.held} {'run waits' if now.held == 1 else 'runs wait'}" if now.held else ""
        if down:
            return self._paint(RED, f"{down} {'is' if len(now.down) == 1 else 'are'} broken{held}")
        return self._paint(YELLOW, f"{' and '.join(probed)} recovers{held}") if probed else ""

    def sum(self, found: DemoSummary, fate: str) -> Iterator[str]:
        """`fate` is what becomes of the database."""
        yield self._paint(BOLD, "Acme is closed")
        for name, number, remark in (
            ("runs started", found.started, ""),
            ("done", found.done, ""),
            ("dead letters", found.letters, fate),
            ("not finished yet", found.unfinished, "another worker would go on with them"),
            ("lost", found.lost, "every run that was started was looked for"),
            ("broken promises", found.wrong, "as redrive verify finds them"),
            ("cards charged", found.charged, f"{found.charged_twice} of them twice"),
        ):
            line = f"  {name:<18}{number:>7,}  {self._paint(DIM, remark)}".rstrip()
            yield line


def _command(number: int, facts: PathFacts, where: DemoAddresses) -> str:
    return {
        SEE: "redrive dlq groups",
        UNDERSTAND: f"redrive dlq view {facts.letter}",
        FIX: where.fix,
        REPLAY: f"redrive replay start {facts.operation}" if facts.operation else plan_command(facts.group),
    }.get(number, f"redrive replay watch {facts.operation}")
