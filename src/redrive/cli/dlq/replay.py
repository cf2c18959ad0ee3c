"""`redrive dlq replay`: executes the work of one dead letter again, and waits for what comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from shlex import quote
from typing import IO, Any

import click

from redrive.cli.checks import confirm, require_state
from redrive.cli.client import Client, segment
from redrive.cli.connection import api_options
from redrive.cli.dlq.selection import PATH, explain_letter_ids
from redrive.cli.options import dry_run_option, output_option, reason_option, timeout_option, yes_option
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import JSON, show_json
from redrive.cli.progress import Poller
from redrive.cli.replay.options import mode_option, policy_option
from redrive.cli.table import Row, took
from redrive.cli.terminal import escape, notice, styled_state
from redrive.errors import InvalidValueError
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS

UNFINISHED = ("PLANNED", "RUNNING")


def _refuse_many(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        plan = f"redrive replay plan {parameter.opts[0]} {quote(value)}"
        raise click.UsageError(f"It replays one dead letter; many at once: {plan}")


def _many(option: str) -> Callable[[Any], Any]:
    """Known, to be told of where it belongs; first of all, whatever else is missing."""
    return click.option(option, hidden=True, expose_value=False, is_eager=True, callback=_refuse_many)


@click.command()
@_many("--group")
@_many("--query")
@click.argument("letter_id", metavar="ID")
@mode_option
@click.option("--from-step", metavar="STEP", help="Go back to this earlier step; its name or its index.")
@policy_option
@click.option(
    "--payload",
    type=click.File("rb"),
    metavar="FILE",
    help="JSON instead of what the step was given; needs a --reason. - is the standard input.",
)
@reason_option
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until it has ended.")
@timeout_option
@dry_run_option
@yes_option
@output_option
@api_options
def replay(
    client: Client,
    letter_id: str,
    wait: bool,
    timeout: float | None,
    dry_run: bool,
    yes: bool,
    output: str | None,
    **asked: Any,
) -> None:
    """Execute the work of a dead letter again, from the failed step on.

    Exits with 0 if it has succeeded, with 7 if it has failed again. Many at once: `redrive replay plan`.
    """
    body = _body(**asked)
    path = f"{PATH}/{segment(letter_id)}"
    with explain_letter_ids([letter_id]):
        letter, verdict = client.get(path), client.get(f"{path}/verdict")
    for sentence in (verdict["why"], verdict["advice"]):
        notice(escape(sentence))
    what = f"the dead letter {letter['id']}"
    require_state(DEAD_LETTER_TRANSITIONS, "replay started", letter["state"], what, "replayed")
    how = "the failed step alone" if body.get("mode") == "STEP_ONLY" else "from there to the end"
    step = body.get("from_step", body.get("from_step_index", letter["step"]))
    edited = ", with another payload" if "payload" in body else ""
    question = f"replay {what} at the step {step!r}, {how}{edited}, on {client.where}"
    if not confirm(question, dry_run=dry_run, yes=yes):
        return
    begun = client.post(f"{path}/replay", body)
    notice(f"The replay {begun['id']} has begun.")
    ended = _follow(client, begun, letter["queue"], timeout) if wait else begun
    if output in JSON:
        show_json(ended, output)
    if wait:
        _report_end(ended)


def _body(from_step: str | None, payload: IO[bytes] | None, **asked: Any) -> Row:
    body = {name: value for name, value in asked.items() if value is not None}
    if from_step is not None:
        is_index = from_step.isascii() and from_step.isdecimal()
        body["from_step_index" if is_index else "from_step"] = int(from_step) if is_index else from_step
    if payload is not None:
        try:
            body["payload"] = json.load(payload)
        except (ValueError, RecursionError) as error:
            raise InvalidValueError(f"the payload is no JSON: {error}") from None
    return body


def _follow(client: Client, begun: Row, queue: str, timeout: float | None) -> Row:
    poller, path = Poller(client, timeout), f"/api/v1/replays/{segment(begun['id'])}"
    try:
        replay: Row = client.get(path)
        while replay["state"] in UNFINISHED:
            poller.wait(f"the replay {begun['id']}", queue, waits=True)
            replay = client.get(path)
    except KeyboardInterrupt:
        notice(f"\nThe replay goes on; `redrive run watch {begun['run_id']}` looks again.")
        raise
    return replay


def _report_end(replay: Row) -> None:
    after = took(replay["requested_at"], replay["ended_at"])
    note = "" if not replay["note"] else f" ({escape(replay['note'])})"
    notice("It has ", styled_state(replay["state"], replay["state"].lower()), f" after {after}{note}.")
    if replay["state"] != "SUCCEEDED":
        if replay["fingerprint_after"] not in (None, replay["fingerprint"]):
            notice("It has failed of something else than before.")
        notice(f"`redrive dlq view {replay['dead_letter_id']}` tells why.")
        raise Ended(Exit.FAILURES)
