"""How far a bulk replay is, as a bar on a terminal, and now and then as a line where a log is written."""

from __future__ import annotations

import sys
import time

import click

from redrive.cli.cell import cut
from redrive.cli.replay.report import ended, replayed
from redrive.cli.table import Row, terminal_width
from redrive.cli.text import age, notice, visible

WIDTH = 20
SECONDS_A_LINE = 5.0
ENOUGH_ENDED, ENOUGH_SECONDS = 5, 2.0
"""A pace is told from so many on, over so long."""
_CLEARED = "\r\x1b[K"


class Ticker:
    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._began = time.monotonic()
        self._at_first: int | None = None
        self._line = ""
        self._told_at = -SECONDS_A_LINE

    def tell(self, report: Row) -> None:
        line, now = self._words(report), time.monotonic()
        if self._on_terminal:
            shown = cut(f"{_label(report):10}{_bar(report)}  {line}", terminal_width() - 1)
            click.echo(f"{_CLEARED}{shown}", nl=False, err=True)
        elif line != self._line and now - self._told_at >= SECONDS_A_LINE:
            self._told_at = now
            notice(f"{_label(report)}: {line}")
        self._line = line

    def end(self) -> None:
        """What comes next begins on a line of its own."""
        if self._on_terminal and self._line:
            click.echo(err=True)
            self._line = ""

    def say(self, text: str) -> None:
        self.end()
        notice(text)

    def _words(self, report: Row) -> str:
        items = report["items"]
        words = [f"{ended(report):,} of {replayed(report):,} ended"]
        words += [f"{items['FAILED']:,} failed"] if items.get("FAILED") else []
        words += [f"{items['RUNNING']:,} under way"] if items.get("RUNNING") else []
        left = self._seconds_left(report)
        return ", ".join(words) + ("" if left is None else f", about {age(left)} left")

    def _seconds_left(self, report: Row) -> float | None:
        done, passed = ended(report), time.monotonic() - self._began
        if self._at_first is None:
            self._at_first = done
        lately, left = done - self._at_first, replayed(report) - done
        if report["operation"]["state"] != "RUNNING" or lately < ENOUGH_ENDED or passed < ENOUGH_SECONDS:
            return None
        return left * passed / lately if left else None


def _bar(report: Row) -> str:
    total = replayed(report)
    full = WIDTH * ended(report) // total if total else WIDTH
    return f"[{'#' * full}{'-' * (WIDTH - full)}]"


def _label(report: Row) -> str:
    operation = report["operation"]
    if operation["state"] != "RUNNING":
        return visible(operation["state"]).capitalize()
    in_canary = operation["ramped_at"] is None and operation["options"]["canary"] < replayed(report)
    return "Canary" if in_canary else "Replaying"
