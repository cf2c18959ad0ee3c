"""`redrive replay watch`: follow the progress of a bulk replay."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.options import output_option, timeout_option
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.progress import Poller, can_draw, progress_bar
from redrive.cli.replay.operation import (
    OVER,
    count_ended,
    count_replayed,
    read_operation,
    report_exit,
    show_report,
)
from redrive.cli.table import Row
from redrive.cli.terminal import escape, notice
from redrive.errors import TransitionError
from redrive.words.time import age

if TYPE_CHECKING:
    from rich.progress import Progress

BAR_WIDTH = 20
LINE_SECONDS = 5.0
"""How often to write a line if stderr is not a terminal."""
MIN_ENDED, MIN_SECONDS = 5, 2.0
"""Estimate the time left once this many items have finished and this many seconds have passed."""


@click.command()
@click.argument("operation_id", metavar="ID")
@timeout_option
@output_option
@api_options
def watch(client: Client, operation_id: str, timeout: float | None, output: str | None) -> None:
    """Follow a replay until it finishes or stops.

    Exits with 0 if all items succeed, with 7 if some fail or are refused or the replay stops, and with 9 if
    it takes longer than --timeout.
    """
    follow(client, operation_id, timeout, output)


def follow(client: Client, operation_id: str, timeout: float | None, output: str | None) -> None:
    progress = ReplayProgress()
    try:
        report = _wait(client, operation_id, timeout, progress)
    except KeyboardInterrupt:
        progress.report(f"The replay continues. Follow it with `redrive replay watch {operation_id}`.")
        raise
    finally:
        progress.stop()
    show_report(client, report, output)
    if (code := report_exit(report)) is not Exit.OK:
        raise CommandExit(code)


def _wait(client: Client, operation_id: str, timeout: float | None, progress: ReplayProgress) -> Row:
    """Return the final report. Items that are in progress when the replay stops still finish."""
    poller, paused = Poller(client, timeout, progress.report), False
    while True:
        report = read_operation(client, operation_id, "/report")
        state = report["operation"]["state"]
        if state == "PLANNED":
            raise TransitionError(
                f"the replay has not been started; start it with `redrive replay start {operation_id}`"
            )
        progress.update(report)
        if state in OVER and not report["items"].get("RUNNING"):
            return report
        if state == "PAUSED" and not paused:
            progress.report(f"The replay is paused. Resume it with `redrive replay resume {operation_id}`.")
            paused = True
        waits = state == "RUNNING" and not report["operation"]["released"]
        poller.wait(f"Replay {operation_id}", None, waits=waits)


class ReplayProgress:
    """Draws a bar on a terminal; elsewhere writes a line every few seconds."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()
        self._ended_at_first: int | None = None
        self._bar: Progress | None = None
        self._line = ""
        self._line_at = -LINE_SECONDS

    def update(self, report: Row) -> None:
        label, text, now = _label(report), self._text(report), time.monotonic()
        if can_draw():
            bar = self._start() if self._bar is None else self._bar
            total = count_replayed(report)
            done = count_ended(report) if total else 1  # without a total, the bar would pulse
            bar.update(bar.task_ids[0], total=total or 1, completed=done, label=label, text=text)
        elif text != self._line and now - self._line_at >= LINE_SECONDS:
            self._line, self._line_at = text, now
            notice(f"{label}: {text}")

    def report(self, text: str) -> None:
        self.stop()
        notice(text)

    def stop(self) -> None:
        """Stop drawing; the bar stays visible, and later output follows below it."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _start(self) -> Progress:
        from rich.progress import BarColumn, TextColumn

        self._bar = progress_bar(
            TextColumn("{task.fields[label]:10}", markup=False),
            BarColumn(BAR_WIDTH),
            TextColumn("{task.fields[text]}", markup=False),
        )
        self._bar.add_task("", label="", text="")
        self._bar.start()
        return self._bar

    def _text(self, report: Row) -> str:
        items = report["items"]
        words = [f"{count_ended(report):,} of {count_replayed(report):,} finished"]
        words += [f"{items['FAILED']:,} failed"] if items.get("FAILED") else []
        words += [f"{items['RUNNING']:,} in progress"] if items.get("RUNNING") else []
        left = self._seconds_left(report)
        return ", ".join(words) + ("" if left is None else f", about {age(left)} left")

    def _seconds_left(self, report: Row) -> float | None:
        done, passed = count_ended(report), time.monotonic() - self._started_at
        if self._ended_at_first is None:
            self._ended_at_first = done
        recent, left = done - self._ended_at_first, count_replayed(report) - done
        if report["operation"]["state"] != "RUNNING" or recent < MIN_ENDED or passed < MIN_SECONDS:
            return None
        return left * passed / recent if left else None


def _label(report: Row) -> str:
    operation = report["operation"]
    if operation["state"] != "RUNNING":
        return escape(operation["status"]).capitalize()
    in_canary = operation["ramped_at"] is None and operation["options"]["canary"] < count_replayed(report)
    return "Canary" if in_canary else "Replaying"
