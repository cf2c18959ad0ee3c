"""`redrive dlq replay`: replay one dead letter and wait for the result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from shlex import quote
from typing import IO, Any

import click

from redrive.cli.checks import confirm, require_reason, require_state
from redrive.cli.client import Client, segment
from redrive.cli.connection import api_options
from redrive.cli.dlq.selection import PATH, explain_letter_ids
from redrive.cli.dlq.view import advice_of
from redrive.cli.options import dry_run_option, output_option, reason_option, timeout_option, yes_option
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.output import JSON, show_json
from redrive.cli.progress import Poller
from redrive.cli.replay.options import mode_option, policy_option
from redrive.cli.table import Row, took
from redrive.cli.terminal import escape, notice, styled_state
from redrive.errors import InvalidValueError
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS
from redrive.words.number import plural
from redrive.words.replay import describe_change
from redrive.words.state import status

UNFINISHED = ("PLANNED", "RUNNING")
CHANGES = ("payload", "set_fields", "remove_fields")
_PAIR = re.compile(r'(?P<path>(?:[^="]|"(?:[^"\\]|\\.)*")+)=(?P<value>.*)', re.DOTALL)
"""An equals sign within quotes belongs to the path."""


def _reject_many(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        plan = f"redrive replay plan {parameter.opts[0]} {quote(value)}"
        raise click.UsageError(f"This command replays one dead letter. To replay many, run `{plan}`.")


def _many(option: str) -> Callable[[Any], Any]:
    """A hidden, eager option that points to `redrive replay plan`."""
    return click.option(option, hidden=True, expose_value=False, is_eager=True, callback=_reject_many)


def field_value(pair: str) -> tuple[str, Any]:
    """Split PATH=VALUE. The value is JSON if it is valid JSON, and otherwise a string."""
    match = _PAIR.fullmatch(pair)
    if match is None:
        raise ValueError(pair)
    try:
        return match["path"], json.loads(match["value"], parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return match["path"], match["value"]


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _parse_fields(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> Row:
    fields: Row = {}
    for pair in pairs:
        try:
            path, value = field_value(pair)
        except ValueError:
            hint = "write it as PATH=VALUE, such as address.country=DE"
            raise click.BadParameter(hint, context, parameter) from None
        if path in fields:
            raise click.BadParameter(f"{path} is set twice", context, parameter)
        fields[path] = value
    return fields


@click.command()
@_many("--group")
@_many("--query")
@click.argument("letter_id", metavar="ID")
@mode_option
@click.option("--from-step", metavar="STEP", help="Go back to this earlier step, by name or number (from 1).")
@policy_option
@click.option(
    "--payload",
    type=click.File("rb"),
    metavar="FILE",
    help="Replace the payload with this JSON; - reads stdin. Redacted values stay as stored. Needs --reason.",
)
@click.option(
    "--set-field",
    "set_fields",
    multiple=True,
    metavar="PATH=VALUE",
    callback=_parse_fields,
    help="Set one field of the payload, such as items[0].price=5; repeatable. Needs --reason.",
)
@click.option(
    "--remove-field",
    "remove_fields",
    multiple=True,
    metavar="PATH",
    help="Remove one field or item of the payload; repeatable. Needs --reason.",
)
@reason_option
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait for the result.")
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
    **options: Any,
) -> None:
    """Replay a dead letter, and wait for the result.

    By default, the run continues from the failed step to its end. To repair the payload, set single fields.
    A PATH has a dot before a field and the index of an item in brackets; a name with dots is written as
    ["a.b"]. A VALUE is JSON if it is valid JSON, otherwise a string.

    \b
    redrive dlq replay ID --set-field address.country=DE --set-field items[0].price=5 --reason "typo"

    Exits with 0 if the replay succeeds and with 7 if it fails. To replay many, use `redrive replay plan`.
    """
    body = _body(**options)
    with explain_letter_ids([letter_id]):
        letter = client.get(f"{PATH}/{segment(letter_id)}")
    path = f"{PATH}/{letter['id']}"
    verdict = client.get(f"{path}/verdict")
    for sentence in (verdict["why"]["text"], advice_of(verdict)):
        notice(escape(sentence))
    what = f"dead letter {letter['id']}"
    require_state(DEAD_LETTER_TRANSITIONS, "replay started", letter["state"], what, "replayed")
    edited = _show_changes(client, path, body)
    if edited and not dry_run:
        body["reason"] = require_reason(body["reason"], "change the payload")
    question = f"replay {what} {_describe_steps(body, letter)}{edited}"
    if not confirm(question, client.where, dry_run=dry_run, yes=yes):
        return
    started = client.post(f"{path}/replay", body)
    notice(f"Started replay {started['id']}.")
    replay = _follow(client, started, letter["queue"], timeout) if wait else started
    if output in JSON:
        show_json(replay, output)
    if wait:
        _report_result(replay)


def _show_changes(client: Client, path: str, body: Row) -> str:
    """Show the changes of the payload, if there are any, and return how the question mentions them."""
    if not any(name in body for name in CHANGES):
        return ""
    asked = {name: value for name, value in body.items() if name != "reason"}
    changes = client.post(f"{path}/replay/preview", asked)["changes"]
    for change in changes:
        notice("  ", escape(describe_change(change)))
    return f" with {plural(len(changes), 'change')} to the payload"


def _describe_steps(body: Row, letter: Row) -> str:
    if "from_step_index" in body:
        step = f"step {body['from_step_index'] + 1}"
    else:
        step = f"step {body.get('from_step', letter['step'])!r}"
    return f"at {step} only" if body.get("mode") == "STEP_ONLY" else f"from {step} to the end"


def _body(from_step: str | None, payload: IO[bytes] | None, **options: Any) -> Row:
    body = {name: value for name, value in options.items() if value not in (None, (), {})}
    if from_step is not None and from_step.isascii() and from_step.isdecimal():
        if int(from_step) == 0:
            raise InvalidValueError("steps are numbered from 1; `redrive run view` shows the numbers")
        body["from_step_index"] = int(from_step) - 1
    elif from_step is not None:
        body["from_step"] = from_step
    if payload is not None:
        try:
            body["payload"] = json.load(payload)
        except (ValueError, RecursionError) as error:
            raise InvalidValueError(f"the payload is not valid JSON: {error}") from None
    return body


def _follow(client: Client, started: Row, queue: str, timeout: float | None) -> Row:
    poller, path = Poller(client, timeout), f"/api/v1/replays/{segment(started['id'])}"
    try:
        replay: Row = client.get(path)
        while replay["state"] in UNFINISHED:
            poller.wait(f"Replay {started['id']}", queue, waits=True)
            replay = client.get(path)
    except KeyboardInterrupt:
        notice(f"\nThe replay continues. Follow it with `redrive run watch {started['run_id']}`.")
        raise
    return replay


def _report_result(replay: Row) -> None:
    after = took(replay["requested_at"], replay["ended_at"])
    note = "" if not replay["note"] else f" ({escape(replay['note']['text'])})"
    notice(styled_state(replay["state"], status(replay["state"]).capitalize()), f" after {after}{note}.")
    if replay["state"] != "SUCCEEDED":
        if replay["fingerprint_after"] not in (None, replay["fingerprint"]):
            notice("It failed with a different error than before.")
        notice(f"See why with `redrive dlq view {replay['dead_letter_id']}`.")
        raise CommandExit(Exit.FAILURES)
