"""`redrive replay`: bulk replays of dead letters, planned first, then started, steered and looked at."""

from __future__ import annotations

import click

from redrive.cli.asking import agreed, dry_run_option, reason_option, would, yes_option
from redrive.cli.client import Client
from redrive.cli.listing import JSON, Newest
from redrive.cli.ordered import OrderedGroup
from redrive.cli.outcome import Ended, Exit
from redrive.cli.reach import reach_options
from redrive.cli.replay.items import items
from redrive.cli.replay.plan import PATH, plan, show_plan
from redrive.cli.replay.report import exit_of, read_report, show_report
from redrive.cli.replay.start import start
from redrive.cli.replay.watch import watch
from redrive.cli.replay.words import selected
from redrive.cli.standing import require_standing
from redrive.cli.table import Column, Row, chosen, limit_option, output_option, show_rows
from redrive.cli.text import ago, notice, plural
from redrive.model.replay import OPERATION_TRANSITIONS

COLUMNS = (
    Column("id", whole=True),
    Column("state", whole=True),
    Column("begun", whole=True),
    Column("planned_at", "planned", ago, whole=True),
    "what",
)
FIELDS = ("id", "state", "begun", "will_run", "planned_at", "planned_by", "selected", "reason")


@click.group(cls=OrderedGroup)
def replay() -> None:
    """Bulk replays: plan one, start it, watch, pause, resume, cancel.

    Always a plan first. It begins with a few, goes on when these went well, and stops itself when too
    many fail. One alone is replayed with `redrive dlq replay`.
    """


@click.command("list")
@limit_option
@output_option
@reach_options
def list_operations(client: Client, limit: int | None, output: str | None) -> None:
    """List the replays, the newest first."""
    rows, form = Newest(client, PATH, limit), chosen(output)
    none = "There are no replays; `redrive replay plan` makes one."
    if form == "table":
        show_rows(map(_for_people, rows), COLUMNS, form, empty=none)
    else:
        show_rows(rows if form in JSON else map(_flat, rows), FIELDS, form, empty=none)
    rows.tell_rest()


@click.command()
@click.argument("id")
@output_option
@reach_options
def view(client: Client, id: str, output: str | None) -> None:  # noqa: A002 - its name on the command line
    """Show a replay: its plan until it is started, from then on how far it is.

    Exits with 7 if it has stopped itself, was cancelled, or has ended and some have failed or were refused.
    """
    report = read_report(client, id)
    if report["operation"]["state"] == "PLANNED" and chosen(output) not in JSON:
        show_plan(report["operation"], output)
        return
    show_report(client, report, output)
    if (code := exit_of(report)) is not Exit.OK:
        raise Ended(code)


@click.command()
@click.argument("id")
@reason_option
@dry_run_option
@reach_options
def pause(client: Client, id: str, reason: str, dry_run: bool) -> None:  # noqa: A002
    """Begin nothing more until it is resumed; what is under way is finished."""
    name, named = _steerable(client, id, "paused")
    if not would(f"pause {named}", dry_run):
        client.post(f"{PATH}/{name}/pause", {"reason": reason})
        notice(f"Paused; `redrive replay resume {name}` goes on.")


@click.command()
@click.argument("id")
@reason_option
@dry_run_option
@reach_options
def resume(client: Client, id: str, reason: str, dry_run: bool) -> None:  # noqa: A002
    """Go on; one that has stopped itself begins with a canary again."""
    name, named = _steerable(client, id, "resumed")
    if not would(f"resume {named}", dry_run):
        client.post(f"{PATH}/{name}/resume", {"reason": reason})
        notice(f"It goes on; `redrive replay watch {name}` shows how far it is.")


@click.command()
@click.argument("id")
@reason_option
@dry_run_option
@yes_option
@reach_options
def cancel(client: Client, id: str, reason: str, dry_run: bool, yes: bool) -> None:  # noqa: A002
    """Begin nothing more, for good; what is under way is finished."""
    name, named = _steerable(client, id, "cancelled")
    if agreed(f"cancel {named}, on {client.where}", dry_run=dry_run, yes=yes):
        client.post(f"{PATH}/{name}/cancel", {"reason": reason})
        notice("Cancelled; what was not begun stays a dead letter.")


def _steerable(client: Client, operation_id: str, done: str) -> tuple[str, str]:
    """Its id, and what it is called when somebody is asked."""
    report = read_report(client, operation_id)
    name, left = report["operation"]["id"], report["items"].get("PLANNED", 0)
    what = f"the replay {name}"
    require_standing(OPERATION_TRANSITIONS, done, report["operation"]["state"], what, done)
    return name, f"{what}, of which {plural(left, 'item')} {'was' if left == 1 else 'were'} not begun"


def _for_people(operation: Row) -> Row:
    """A reason says more than what was selected, where somebody has given one."""
    row = _flat(operation)
    begun, what = f"{row['begun']:,} of {row['will_run']:,}", row["reason"] or row["selected"]
    return {**row, "begun": begun, "what": what}


def _flat(operation: Row) -> Row:
    told = {"begun": operation["released"], "will_run": operation["plan"]["will_run"]}
    return {**operation, **told, "selected": selected(operation)}


for each in (plan, start, watch, list_operations, view, items, pause, resume, cancel):
    replay.add_command(each)
