"""`redrive replay watch`: how far a bulk replay is, until it ends."""

from __future__ import annotations

import click

from redrive.cli.client import Client
from redrive.cli.following import Follower, timeout_option
from redrive.cli.outcome import Ended, Exit
from redrive.cli.reach import reach_options
from redrive.cli.replay.report import OVER, exit_of, read_report, show_report
from redrive.cli.replay.ticker import Ticker
from redrive.cli.table import Row, output_option
from redrive.errors import TransitionError


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
        report = _to_its_end(client, operation_id, timeout, ticker)
    except KeyboardInterrupt:
        ticker.say(f"The replay goes on; `redrive replay watch {operation_id}` looks again.")
        raise
    ticker.end()
    show_report(client, report, output)
    if (code := exit_of(report)) is not Exit.OK:
        raise Ended(code)


def _to_its_end(client: Client, operation_id: str, timeout: float | None, ticker: Ticker) -> Row:
    follower, paused = Follower(client, timeout, ticker.say), False
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
