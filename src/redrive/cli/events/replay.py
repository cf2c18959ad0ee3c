"""`redrive events replay`: failed projections in bulk, one dead letter, or one event with projectors."""

from __future__ import annotations

from typing import Any

import click

from redrive.cli.checks import confirm, report_dry_run
from redrive.cli.client import Client, segment
from redrive.cli.connection import api_options
from redrive.cli.dlq.selection import PATH as LETTERS
from redrive.cli.dlq.selection import explain_letter_ids
from redrive.cli.events.listing import PATH
from redrive.cli.events.view import read_event
from redrive.cli.options import (
    NumberParam,
    app_option,
    dry_run_option,
    output_option,
    reason_option,
    yes_option,
)
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.output import JSON, chosen, show_json, show_rows
from redrive.cli.replay.operation import PATH as OPERATIONS
from redrive.cli.replay.plan import show_plan
from redrive.cli.table import Row, TableColumn, counted
from redrive.cli.terminal import notice
from redrive.model.operation import MAX_ITEMS
from redrive.words.number import plural
from redrive.words.state import status

COLUMNS = (
    TableColumn("projector", whole=True),
    TableColumn("version"),
    TableColumn("status", "state", status),
    TableColumn("action", "replay", whole=True),
    TableColumn("run_id", "run", whole=True),
    TableColumn("obstacle", "why not"),
)
ACTIONS = {"retry": "retries the failed run", "start": "starts a run", "none": "not executed"}


@click.command()
@click.option("--status", "state", metavar="STATE", help="Replay projections in this state, such as failed.")
@click.option("--query", metavar="QUERY", help="Replay what matches, such as 'is:failed projector:qscore'.")
@click.option("--limit", type=NumberParam(1, MAX_ITEMS), metavar="N", help="At most N, the oldest first.")
@click.option("--dlq", is_flag=True, help="Replay a dead letter of a stream: needs --id.")
@click.option("--id", "letter_id", metavar="ID", help="The dead letter to replay, with --dlq.")
@click.option("--event-id", metavar="ID", help="Replay this event.")
@click.option(
    "--projectors",
    metavar="NAMES",
    help="Only these projectors of the event, separated by commas. Default: all that process it.",
)
@click.option(
    "--canary", type=NumberParam(0, MAX_ITEMS), metavar="N", help="Start with a canary of N. Default: 10."
)
@click.option(
    "--rate",
    type=click.FloatRange(0.001, 100_000),
    metavar="R",
    help="Start at most R per second after the canary.",
)
@app_option
@reason_option
@dry_run_option
@yes_option
@output_option
@api_options
def replay(
    client: Client,
    state: str | None,
    query: str | None,
    dlq: bool,
    letter_id: str | None,
    event_id: str | None,
    projectors: str | None,
    **options: Any,
) -> None:
    """Replay stored events: execute their projectors again.

    A replay uses the stored payload, the dedupe key and the idempotency key of the first execution. A failed
    projection continues its run; a successful one gets a new run, for which your application must be known
    (--app or a server that has it). Failed projections are replayed in bulk, after showing the plan.

    \b
    redrive events replay --status failed --limit 100
    redrive events replay --query 'is:failed projector:qscore since:2h' --canary 5
    redrive events replay --dlq --id ID
    redrive events replay --event-id ID --projectors qscore,service-session
    """
    forms = [state is not None or query is not None, dlq or letter_id is not None, event_id is not None]
    if forms.count(True) != 1 or (state is not None and query is not None):
        raise click.UsageError("Pass one of --status, --query, --dlq with --id, and --event-id.")
    if dlq != (letter_id is not None):
        raise click.UsageError("Pass --dlq and --id together. `redrive dlq list` lists dead letters.")
    if projectors is not None and event_id is None:
        raise click.UsageError("--projectors needs --event-id; in a query, write projector:NAME.")
    if event_id is not None:
        names = None if projectors is None else [name.strip() for name in projectors.split(",")]
        _replay_event(client, event_id, names, options)
    elif letter_id is not None:
        _replay_letter(client, letter_id, options)
    else:
        _replay_many(client, f"is:{state}" if query is None else query, options)


def _replay_event(client: Client, event_id: str, names: list[str] | None, options: Row) -> None:
    event = read_event(client, event_id)
    path, body = f"{PATH}/{segment(event['id'])}/replay", {"projectors": names}
    found = client.post(f"{path}/preview", body)["projections"]
    number = sum(projection["action"] != "none" for projection in found)
    what = f"execute {plural(number, 'projector')} for event {event['id']}"
    form = chosen(options["output"])
    if not number or options["dry_run"] or (not options["yes"] and form == "table"):
        show_rows(found, COLUMNS, form, flat=_flat)
    if not number:
        notice("Nothing to replay.")
        raise CommandExit(Exit.CONFLICT)
    if not confirm(what, client.where, dry_run=options["dry_run"], yes=options["yes"]):
        return
    done = client.post(path, {**body, "reason": options["reason"]})
    show_rows(done["projections"], COLUMNS, form, flat=_flat)
    notice(f"Replayed event {event['id']}. See the result with `redrive events view {event['id']}`.")


def _replay_letter(client: Client, letter_id: str, options: Row) -> None:
    with explain_letter_ids([letter_id]):
        letter = client.get(f"{LETTERS}/{segment(letter_id)}")
    what = f"replay dead letter {letter['id']} of {letter['task']} ({letter['status']})"
    if not confirm(what, client.where, dry_run=options["dry_run"], yes=options["yes"]):
        return
    started = client.post(f"{LETTERS}/{segment(letter['id'])}/replay", {"reason": options["reason"]})
    if (form := chosen(options["output"])) in JSON:
        show_json(started, form)
    notice(f"Started replay {started['id']}. Follow it with `redrive run watch {started['run_id']}`.")


def _replay_many(client: Client, query: str, options: Row) -> None:
    if options["dry_run"]:
        found = client.get(f"{PATH}/count", q=query)
        events = "1 event" if found["number"] == 1 else f"{counted(found)} events"
        report_dry_run(f"plan a replay of the failed projections of {events} that match {query!r}", True)
        return
    given = {name: options[name] for name in ("limit", "canary", "rate", "reason")}
    body = {name: value for name, value in given.items() if value is not None}
    operation = client.post(f"{PATH}/replay", {"query": query, **body})
    show_plan(operation, options["output"])
    number, plan_id = operation["plan"]["will_run"], operation["id"]
    if not number:
        return
    what = f"replay {plural(number, 'failed projection')}"
    if confirm(what, client.where, dry_run=False, yes=options["yes"]):
        client.post(f"{OPERATIONS}/{segment(plan_id)}/start", {"expect": number})
        notice(f"Started replay {plan_id}. Follow it with `redrive replay watch {plan_id}`.")


def _flat(projection: Row) -> Row:
    obstacle = projection["obstacle"]
    why = None if obstacle is None else obstacle["text"]
    return {**projection, "action": ACTIONS[projection["action"]], "obstacle": why}
