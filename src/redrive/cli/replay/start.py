"""`redrive replay start`: start a planned replay, unless its dead letters have changed since."""

from __future__ import annotations

import click

from redrive.cli.checks import confirm
from redrive.cli.client import ApiError, Client, segment
from redrive.cli.connection import api_options
from redrive.cli.options import NumberParam, dry_run_option, output_option, timeout_option, yes_option
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.output import JSON, chosen, show_json
from redrive.cli.replay.operation import PATH, read_operation
from redrive.cli.replay.watch import follow
from redrive.cli.table import Row
from redrive.cli.terminal import escape, notice
from redrive.errors import DriftError, ReplayRefusedError, TransitionError
from redrive.words.number import noun, plural
from redrive.words.state import status

MAX_CHANGES = 20


@click.command()
@click.argument("operation_id", metavar="ID")
@click.option("--expect", type=NumberParam(0), metavar="N", help="Start nothing unless exactly N will run.")
@click.option(
    "--accept-drift", is_flag=True, help="Start without the dead letters that have changed since the plan."
)
@click.option("--wait/--no-wait", default=False, help="Follow the replay, like `redrive replay watch`.")
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
    """Start a planned replay.

    If dead letters have changed since the plan, lists them, starts nothing and exits with 6. --yes skips the
    confirmation, not this check.
    """
    operation = read_operation(client, operation_id)
    if operation["state"] != "PLANNED":
        raise TransitionError(
            f"the replay is already {status(operation['state'])}; see `redrive replay view {operation['id']}`"
        )
    if not operation["plan"]["will_run"]:
        raise ReplayRefusedError(
            f"none of its dead letters can be replayed; see why with `redrive replay view {operation['id']}`"
        )
    drift = client.get(f"{PATH}/{segment(operation_id)}/drift")
    if drift["number"] and not accept_drift:
        raise _drifted(operation["id"], drift, dry_run=dry_run)
    _reject_unexpected(drift, expect)
    if not confirm(_describe(operation, drift["will_run"]), client.where, dry_run=dry_run, yes=yes):
        return
    started = _start(client, operation["id"], accept_drift, expect if yes else drift["will_run"])
    if wait:
        follow(client, started["id"], timeout, output)
        return
    if (form := chosen(output)) in JSON:
        show_json(started, form)
    notice(f"Started replay {started['id']}. Follow it with `redrive replay watch {started['id']}`.")


def _reject_unexpected(drift: Row, expect: int | None) -> None:
    number, changed = drift["will_run"], drift["number"]
    if expect is not None and number != expect:
        why = f" ({changed:,} changed since the plan)" if changed else ""
        raise DriftError(
            f"{plural(number, 'dead letter')} would be replayed, not {expect:,} as expected{why}; "
            f"nothing was started"
        )
    if not number:
        raise ReplayRefusedError("all dead letters have changed since the plan; plan again")


def _describe(operation: Row, number: int) -> str:
    plan = operation["plan"]
    repeat, skipped = min(plan["may_repeat_effects"], number), plan["will_run"] - number
    text = f"replay {plural(number, 'dead letter')}"
    if skipped:
        text += f", without {skipped:,} that {noun(skipped, 'has', 'have')} changed"
    if repeat:
        up_to = "up to " if skipped else ""
        text += f", of which {up_to}{repeat:,} may repeat a side effect that is not safe to repeat"
    return text


def _start(client: Client, operation_id: str, accept_drift: bool, expect: int | None) -> Row:
    """Start the replay if it still has the number that was confirmed or expected."""
    body = {"accept_drift": accept_drift, "expect": expect}
    try:
        started: Row = client.post(f"{PATH}/{segment(operation_id)}/start", body)
    except ApiError as error:
        if not error.more.get("changes"):
            raise
        raise _drifted(operation_id, error.more) from None
    return started


def _drifted(operation_id: str, drift: Row, dry_run: bool = False) -> CommandExit:
    number, then = drift["number"], "would be" if dry_run else "was"
    changed = plural(number, "dead letter has", "dead letters have")
    notice(f"Error: {changed} changed since the plan; nothing {then} started:")
    for change in drift["changes"][:MAX_CHANGES]:
        notice(f"  {change['letter_id']}  {escape(change['change']['text'])}")
    if number > MAX_CHANGES:
        notice(f"  and {number - MAX_CHANGES:,} more")
    notice(f"Hint: plan again, or skip them with `redrive replay start {operation_id} --accept-drift`")
    return CommandExit(Exit.CONFLICT)
