"""`redrive replay watch`: how far a bulk replay is, until it ends."""

from __future__ import annotations

import time

import click

from redrive.cli.client import AnswerError, Client
from redrive.cli.duration import DURATION
from redrive.cli.outcome import Ended, Exit
from redrive.cli.reach import reach_options
from redrive.cli.replay.report import OVER, exit_of, read_report, show_report
from redrive.cli.replay.ticker import Ticker
from redrive.cli.table import Row, output_option
from redrive.cli.times import length
from redrive.cli.workers import START, is_heard
from redrive.errors import TransitionError

FIRST, FACTOR, LONGEST = 0.1, 1.5, 1.0
PATIENCE = 2.0
"""Seconds after which somebody who waits is told why nothing happens."""

timeout_option = click.option(
    "--timeout", type=DURATION, metavar="LENGTH", help="Wait no longer than this, such as 10m."
)


@click.command()
@click.argument("id")
@timeout_option
@output_option
@reach_options
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
        report = _Following(client, operation_id, timeout, ticker).to_its_end()
    except KeyboardInterrupt:
        ticker.say(f"The replay goes on; `redrive replay watch {operation_id}` looks again.")
        raise
    ticker.end()
    show_report(client, report, output)
    if (code := exit_of(report)) is not Exit.OK:
        raise Ended(code)


class _Following:
    def __init__(self, client: Client, operation_id: str, timeout: float | None, ticker: Ticker) -> None:
        self._client = client
        self._id = operation_id
        self._timeout = timeout
        self._ticker = ticker
        self._began = time.monotonic()
        self._said: set[str] = set()

    def to_its_end(self) -> Row:
        pause = FIRST
        while True:
            report = read_report(self._client, self._id)
            self._refuse_planned(report)
            self._ticker.tell(report)
            if _is_over(report):
                return report
            self._tell_what_it_waits_for(report)
            self._wait(pause)
            pause = min(LONGEST, pause * FACTOR)

    def _wait(self, pause: float) -> None:
        passed = time.monotonic() - self._began
        left = pause if self._timeout is None else self._timeout - passed
        if left <= 0.0:
            self._ticker.say(f"It has not ended after {length(passed)}, and goes on without being watched.")
            raise Ended(Exit.TIMED_OUT)
        time.sleep(min(pause, left))

    def _refuse_planned(self, report: Row) -> None:
        if report["operation"]["state"] == "PLANNED":
            raise TransitionError(f"it was not started so far: `redrive replay start {self._id}` does that")

    def _tell_what_it_waits_for(self, report: Row) -> None:
        state = report["operation"]["state"]
        if state == "PAUSED":
            self._say_once(state, f"It is paused: `redrive replay resume {self._id}` goes on.")
        idle = not report["operation"]["released"] and time.monotonic() - self._began > PATIENCE
        if state == "RUNNING" and idle and not self._has_worker():
            self._say_once("worker", f"No worker is at work: `{START}` starts one. Waiting …")

    def _has_worker(self) -> bool:
        if "worker" in self._said:
            return True
        try:
            return any(map(is_heard, self._client.get("/api/v1/workers")["items"]))
        except AnswerError:  # whoever may not see them waits without being told
            return True

    def _say_once(self, key: str, text: str) -> None:
        if key not in self._said:
            self._said.add(key)
            self._ticker.say(text)


def _is_over(report: Row) -> bool:
    """What was under way when it was stopped or cancelled is finished."""
    return report["operation"]["state"] in OVER and not report["items"].get("RUNNING")
