"""`redrive replay start`: start a planned replay, unless its dead letters have changed."""

from __future__ import annotations

import click

from redrive.cli.checks import confirm
from redrive.cli.client import ApiError, Client, segment
from redrive.cli.connection import api_options
from redrive.cli.options import dry_run_option, output_option, timeout_option, yes_option
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import JSON, chosen, show_json
from redrive.cli.replay.operation import PATH, read_operation
from redrive.cli.replay.watch import follow
from redrive.cli.table import Row
from redrive.cli.terminal import escape, notice
from redrive.errors import DriftError, ReplayRefusedError, TransitionError
from redrive.words.number import plural

MAX_CHANGES = 20


@click.command()
@click.argument("operation_id", metavar="ID")
@click.option(
    "--expect", type=click.IntRange(0), metavar="N", help="Start nothing unless exactly so many will run."
)
@click.option("--accept-drift", is_flag=True, help="Leave out what has changed since it was planned.")
@click.option("--wait/--no-wait", default=False, help="Follow it to its end, as `redrive replay watch`.")
@timeout_option
@dry_run_option
@yes_option
@output_option
@api_options
def start(
    client: Client,
    operation_id: str,
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
    operation = read_operation(client, operation_id)
    if operation["state"] != "PLANNED":
        raise TransitionError(
            f"it is {operation['state']} already; `redrive replay view {operation['id']}` tells more"
        )
    if not operation["plan"]["will_run"]:
        raise ReplayRefusedError(
            f"nothing of it can be replayed; `redrive replay view {operation['id']}` tells why"
        )
    drift = client.get(f"{PATH}/{segment(operation_id)}/drift")
    if drift["number"] and not accept_drift:
        raise _drifted(operation["id"], drift, dry_run=dry_run)
    _refuse_unexpected(drift, expect)
    if not confirm(_describe(operation, drift["will_run"], client.where), dry_run=dry_run, yes=yes):
        return
    started = _start(client, operation["id"], accept_drift, expect if yes else drift["will_run"])
    if wait:
        follow(client, started["id"], timeout, output)
        return
    if (form := chosen(output)) in JSON:
        show_json(started, form)
    notice(f"Started; `redrive replay watch {started['id']}` shows how far it is.")


def _refuse_unexpected(drift: Row, expect: int | None) -> None:
    number, changed = drift["will_run"], drift["number"]
    if expect is not None and number != expect:
        why = f" ({changed:,} changed since it was planned)" if changed else ""
        raise DriftError(
            f"{plural(number, 'dead letter')} would be replayed, not {expect:,} as expected{why}; "
            f"nothing was started"
        )
    if not number:
        raise ReplayRefusedError("all of them have changed since it was planned; plan anew")


def _describe(operation: Row, number: int, where: str) -> str:
    plan = operation["plan"]
    repeat, left_out = min(plan["may_repeat_effects"], number), plan["will_run"] - number
    words = [f"replay {plural(number, 'dead letter')}"]
    if left_out:
        words.append(f", without {left_out:,} that {'has' if left_out == 1 else 'have'} changed")
    if repeat:
        most = "up to " if left_out else ""
        words.append(f", of which {most}{repeat:,} may repeat an effect that is not safe to repeat")
    return f"{''.join(words)}{',' * (len(words) > 1)} in {where}"


def _start(client: Client, operation_id: str, accept_drift: bool, expect: int | None) -> Row:
    """Start as many as were confirmed or expected, or none."""
    body = {"accept_drift": accept_drift, "expect": expect}
    try:
        started: Row = client.post(f"{PATH}/{segment(operation_id)}/start", body)
    except ApiError as error:
        if not error.more.get("changes"):
            raise
        raise _drifted(operation_id, error.more) from None
    return started


def _drifted(operation_id: str, drift: Row, dry_run: bool = False) -> Ended:
    number, then = drift["number"], "would be" if dry_run else "was"
    changed = plural(number, "dead letter has", "dead letters have")
    notice(f"Error: {changed} changed since it was planned; nothing {then} started:")
    for change in drift["changes"][:MAX_CHANGES]:
        notice(f"  {change['letter_id']}  {escape(change['change'])}")
    if number > MAX_CHANGES:
        notice(f"  and {number - MAX_CHANGES:,} more")
    notice(f"Hint: plan anew, or leave them out: redrive replay start {operation_id} --accept-drift")
    return Ended(Exit.CONFLICT)
