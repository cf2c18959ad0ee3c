"""`redrive replay start`: begins what was planned, if it still is what was planned."""

from __future__ import annotations

from typing import Any

import click

from redrive.cli.asking import agreed, dry_run_option, yes_option
from redrive.cli.client import AnswerError, Client, segment
from redrive.cli.listing import JSON
from redrive.cli.outcome import Ended, Exit
from redrive.cli.reach import reach_options
from redrive.cli.replay.plan import PATH
from redrive.cli.replay.watch import follow, timeout_option
from redrive.cli.replay.words import plural
from redrive.cli.table import Row, chosen, output_option, show_json
from redrive.cli.text import notice, visible
from redrive.errors import DriftError, ReplayRefusedError, TransitionError

MOST_CHANGES = 20


@click.command()
@click.argument("id")
@click.option(
    "--expect", type=click.IntRange(0), metavar="N", help="Start nothing unless exactly so many will run."
)
@click.option("--accept-drift", is_flag=True, help="Leave out what has changed since it was planned.")
@click.option("--wait/--no-wait", default=False, help="Follow it to its end, as `redrive replay watch`.")
@timeout_option
@dry_run_option
@yes_option
@output_option
@reach_options
def start(
    client: Client,
    id: str,  # noqa: A002 - its name on the command line
    expect: int | None,
    accept_drift: bool,
    wait: bool,
    timeout: float | None,
    dry_run: bool,
    yes: bool,
    output: str | None,
) -> None:
    """Start a replay that was planned.

    If dead letters have changed since, nothing is started, they are listed, and the exit code is 6. With
    --yes nobody is asked; what was planned is checked all the same.
    """
    operation = client.get(f"{PATH}/{segment(id)}")
    _check(operation, expect)
    if not agreed(_what(operation, client.where), dry_run=dry_run, yes=yes):
        return
    started = _started(client, operation["id"], accept_drift)
    if wait:
        follow(client, started["id"], timeout, output)
        return
    if (form := chosen(output)) in JSON:
        show_json(started, indent=2 if form == "json" else None)
    notice(f"Started; `redrive replay watch {started['id']}` shows how far it is.")


def _check(operation: Row, expect: int | None) -> None:
    plan = operation["plan"]
    if operation["state"] != "PLANNED":
        raise TransitionError(
            f"it is {operation['state']} already; `redrive replay view {operation['id']}` tells more"
        )
    if expect is not None and plan["will_run"] != expect:
        raise DriftError(
            f"{plural(plan['will_run'], 'dead letter')} would be replayed, not {expect:,} as expected; "
            f"nothing was started"
        )
    if not plan["will_run"]:
        raise ReplayRefusedError(
            f"nothing of it can be replayed; `redrive replay view {operation['id']}` tells why"
        )


def _what(operation: Row, where: str) -> str:
    """The number, and where it is."""
    plan = operation["plan"]
    repeat = plan["may_repeat_effects"]
    risk = f", of which {repeat:,} may repeat an effect that is not safe to repeat," if repeat else ""
    return f"replay {plural(plan['will_run'], 'dead letter')}{risk} in {where}"


def _started(client: Client, operation_id: str, accept_drift: bool) -> Row:
    try:
        started: Row = client.post(f"{PATH}/{segment(operation_id)}/start", {"accept_drift": accept_drift})
    except DriftError as error:
        raise _drifted(operation_id, error.number, [each._asdict() for each in error.changes]) from None
    except AnswerError as error:
        if error.code != "drift":
            raise
        raise _drifted(operation_id, error.more["number"], error.more["changes"]) from None
    return started


def _drifted(operation_id: str, number: int, changes: list[dict[str, Any]]) -> Ended:
    have = "has" if number == 1 else "have"
    notice(
        f"Error: {plural(number, 'dead letter')} {have} changed since it was planned; nothing was started:"
    )
    for each in changes[:MOST_CHANGES]:
        notice(f"  {each['letter_id']}  {visible(each['change'])}")
    if number > MOST_CHANGES:
        notice(f"  and {number - MOST_CHANGES:,} more")
    notice(f"Hint: plan anew, or leave them out: redrive replay start {operation_id} --accept-drift")
    return Ended(Exit.CONFLICT)
