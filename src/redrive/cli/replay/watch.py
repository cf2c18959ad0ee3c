"""`redrive replay watch`: how far a bulk replay is, until it ends."""

from __future__ import annotations

import sys
import time

import click

from redrive.cli.cell import cut
from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import Row, output_option, terminal_width
from redrive.cli.polling import Poller, timeout_option
from redrive.cli.replay.report import OVER, ended, exit_of, read_report, replayed, show_report
from redrive.cli.terminal import age, notice, visible
from redrive.errors import TransitionError


@click.command()
@click.argument("id")
@timeout_option
@output_option
@api_options
def watch(
    client: Client,
    id: str,  # noqa: A002 - its name on the command line
    timeout: float | None,
    output: str | None,
) -> None:
    """Follow a replay until it ends, or stops itself.

    Exits with 0 if all have succeeded, with 7 if some failed or were refused, or if it stopped, and with 9 if
    it takes longer than --timeout.
    """
    follow(client, id, timeout, output)


def follow(client: Client, operation_id: str, timeout: float | None, output: str | None) -> None:
    ticker = Ticker()
    try:
        report = _to_its_end(client, operation_id, timeout, ticker)
    except KeyboardInterrupt:
        ticker.say(f"The replay goes on; `redrive replay watch {operation_id}` looks again.")
        raise
    ticker.end()
    show_report(client, report, output)
    if (code := exit_of(report)) is not Exit.OK:
        raise Ended(code)


def _to_its_end(client: Client, operation_id: str, timeout: float | None, ticker: Ticker) -> Row:
    follower, paused = Poller(client, timeout, ticker.say), False
    while True:
        report = read_report(client, operation_id)
        operation = report["operation"]
        if operation["state"] == "PLANNED":
            raise TransitionError(
                f"it was not started so far: `redrive replay start {operation_id}` does that"
            )
        ticker.tell(report)
        if _is_over(report):
            return report
        if operation["state"] == "PAUSED" and not paused:
            ticker.say(f"It is paused: `redrive replay resume {operation_id}` goes on.")
        paused = paused or operation["state"] == "PAUSED"
        waits = operation["state"] == "RUNNING" and not operation["released"]
        follower.wait(f"the replay {operation_id}", None, waits=waits)


def _is_over(report: Row) -> bool:
    """What was under way when it was stopped or cancelled is finished."""
    return report["operation"]["state"] in OVER and not report["items"].get("RUNNING")


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
