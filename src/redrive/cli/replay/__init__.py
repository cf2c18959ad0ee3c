"""`redrive replay`: plan, start, control and inspect bulk replays of dead letters."""

from __future__ import annotations

import click

from redrive.cli.checks import confirm, report_dry_run, require_state
from redrive.cli.client import Client, segment
from redrive.cli.commands import CommandGroup
from redrive.cli.connection import api_options
from redrive.cli.options import dry_run_option, limit_option, output_option, reason_option, yes_option
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.output import HOW_TO_SEE_MORE, JSON, NewestRows, chosen, show_rows
from redrive.cli.replay.operation import (
    PATH,
    read_operation,
    report_exit,
    selection_text,
    show_report,
)
from redrive.cli.replay.plan import plan, show_plan
from redrive.cli.replay.start import start
from redrive.cli.replay.watch import watch
from redrive.cli.table import Row, TableColumn, ago, short_fingerprint, since
from redrive.cli.terminal import notice
from redrive.model.replay import OPERATION_TRANSITIONS, ReplayState
from redrive.words.number import plural
from redrive.words.state import status

COLUMNS = (
    TableColumn("id", whole=True),
    TableColumn("state", whole=True, shown="status"),
    TableColumn("progress", "started", whole=True),
    TableColumn("planned_at", "planned", ago, whole=True),
    TableColumn("what", "reason or selection"),
)
FIELDS = ("id", "state", "started", "will_run", "planned_at", "planned_by", "selected", "reason")


@click.group(cls=CommandGroup)
def replay() -> None:
    """Manage bulk replays: plan, start, watch, pause, resume, cancel.

    A bulk replay always starts with a plan. It replays a few dead letters first, continues if they succeed,
    and stops automatically if too many fail. To replay a single dead letter, use `redrive dlq replay`.
    """


@click.command("list")
@limit_option
@output_option
@api_options
def list_operations(client: Client, limit: int | None, output: str | None) -> None:
    """List bulk replays, newest first."""
    rows, form = NewestRows.read(client, PATH, limit), chosen(output)
    none = "No replays. Plan one with `redrive replay plan`."
    show_rows(rows, COLUMNS if form == "table" else FIELDS, form, flat=_flat, empty=none)
    rows.mention_rest()


@click.command()
@click.argument("operation_id", metavar="ID")
@output_option
@api_options
def view(client: Client, operation_id: str, output: str | None) -> None:
    """Show a replay: its plan, then its progress.

    Exits with 7 if the replay stopped, was cancelled, or finished with failed or refused items.
    """
    report = read_operation(client, operation_id, "/report")
    if report["operation"]["state"] == "PLANNED" and chosen(output) not in JSON:
        show_plan(report["operation"], output)
        return
    show_report(client, report, output)
    if (code := report_exit(report)) is not Exit.OK:
        raise CommandExit(code)


@click.command()
@click.argument("operation_id", metavar="ID")
@reason_option
@dry_run_option
@api_options
def pause(client: Client, operation_id: str, reason: str, dry_run: bool) -> None:
    """Pause a replay. Items in progress finish, and nothing new starts."""
    name, description = _look_up(client, operation_id, "paused")
    if not report_dry_run(f"pause {description}", dry_run):
        client.post(f"{PATH}/{name}/pause", {"reason": reason})
        notice(f"Paused replay {name}. Resume it with `redrive replay resume {name}`.")


@click.command()
@click.argument("operation_id", metavar="ID")
@reason_option
@dry_run_option
@api_options
def resume(client: Client, operation_id: str, reason: str, dry_run: bool) -> None:
    """Resume a paused or stopped replay. A stopped one starts with a canary again."""
    name, description = _look_up(client, operation_id, "resumed")
    if not report_dry_run(f"resume {description}", dry_run):
        client.post(f"{PATH}/{name}/resume", {"reason": reason})
        notice(f"Resumed replay {name}. Follow it with `redrive replay watch {name}`.")


@click.command()
@click.argument("operation_id", metavar="ID")
@reason_option
@dry_run_option
@yes_option
@api_options
def cancel(client: Client, operation_id: str, reason: str, dry_run: bool, yes: bool) -> None:
    """Cancel a replay. Items in progress finish, and the rest remain dead letters."""
    name, description = _look_up(client, operation_id, "cancelled")
    if confirm(f"cancel {description}", client.where, dry_run=dry_run, yes=yes):
        client.post(f"{PATH}/{name}/cancel", {"reason": reason})
        notice(f"Cancelled replay {name}. Items that had not started remain dead letters.")


def _look_up(client: Client, operation_id: str, done: str) -> tuple[str, str]:
    """Return the id of the replay, and its description for the confirmation."""
    report = read_operation(client, operation_id, "/report")
    name, left = report["operation"]["id"], report["items"].get("PLANNED", 0)
    what = f"replay {name}"
    require_state(OPERATION_TRANSITIONS, done, report["operation"]["state"], what, done)
    return name, f"{what} ({plural(left, 'item')} not started)"


def _flat(operation: Row) -> Row:
    """Fill the columns. A table shows the reason, if one was given, instead of the selection."""
    selected, will_run = selection_text(operation), operation["plan"]["will_run"]
    row = {**operation, "started": operation["released"], "will_run": will_run, "selected": selected}
    return row | {"progress": f"{row['started']:,} of {will_run:,}", "what": operation["reason"] or selected}


ITEM_COLUMNS = (
    TableColumn("dead_letter_id", "dead letter", whole=True),
    TableColumn("state", whole=True, shown="status"),
    TableColumn("ended_at", "age", since),
    TableColumn("group", "failed as", whole=True),
    "note",
)
ITEM_FIELDS = ("dead_letter_id", "state", "run_id", "started_at", "ended_at", "fingerprint_after", "note")


@click.command()
@click.argument("operation_id", metavar="ID")
@click.option(
    "--state",
    type=click.Choice(list(map(str, ReplayState)), case_sensitive=False),
    metavar="STATE",
    help=f"Only items in this state: {', '.join(ReplayState)}.",
)
@limit_option
@output_option
@api_options
def items(
    client: Client,
    operation_id: str,
    state: str | None,
    limit: int | None,
    output: str | None,
) -> None:
    """List the items of a replay, in start order.

    \b
    redrive replay items 0123… --state FAILED
    """
    report, form = read_operation(client, operation_id, "/report"), chosen(output)
    rows = client.pages(f"{PATH}/{segment(operation_id)}/items", limit=limit, state=state)
    none = f"No items are {status(state)}." if state else "No items."
    columns = ITEM_COLUMNS if form == "table" else ITEM_FIELDS
    shown = show_rows(rows, columns, form, flat=_flat_item, empty=none)
    known = report["items"]
    total = known.get(state, 0) if state else sum(known.values())
    if total > shown:
        notice(f"Showing {shown:,} of {total:,}. {HOW_TO_SEE_MORE}")


def _flat_item(item: Row) -> Row:
    after = item["fingerprint_after"]
    same = after is not None and after == item["fingerprint"]
    group = "-" if after is None else short_fingerprint(after) + (" (same)" if same else "")
    return {**item, "group": group, "note": item["note"]["text"] if item["note"] else None}


for command in (plan, start, watch, list_operations, view, items, pause, resume, cancel):
    replay.add_command(command)
