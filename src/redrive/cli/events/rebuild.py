"""`redrive events rebuild` and `rebuilds`: all stored events of a stream through one projector again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.checks import confirm, explain_ids, report_dry_run, require_state
from redrive.cli.client import Client, segment
from redrive.cli.commands import CommandGroup
from redrive.cli.connection import api_options
from redrive.cli.options import (
    MomentParam,
    NumberParam,
    app_option,
    dry_run_option,
    limit_option,
    output_option,
    reason_option,
    yes_option,
)
from redrive.cli.output import JSON, NewestRows, chosen, show_json, show_one, show_rows
from redrive.cli.table import Row, TableColumn, ago, stamp
from redrive.cli.terminal import notice, out, styled_status
from redrive.model.replay import OPERATION_TRANSITIONS
from redrive.words.number import plural
from redrive.words.time import pace

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

PATH = "/api/v1/rebuilds"
COLUMNS = (
    TableColumn("id", whole=True),
    TableColumn("state", whole=True, shown="status"),
    TableColumn("name", "projector"),
    TableColumn("progress", "read", whole=True),
    TableColumn("started"),
    TableColumn("created_at", "created", ago, whole=True),
)
FIELDS = (
    *("id", "state", "stream", "projector", "version"),
    *("total", "seen", "started", "skipped", "created_at"),
)


@click.command()
@click.option("--projector", required=True, metavar="NAME", help="The projector to rebuild.")
@click.option("--stream", metavar="NAME", help="Its stream, if several have a projector of this name.")
@click.option(
    "--version",
    type=NumberParam(1),
    metavar="N",
    help="The version of the projector. Default: the newest that the application declares.",
)
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type; repeatable.")
@click.option("--since", type=MomentParam(), metavar="TIME", help="Only events stored since, such as 7d.")
@click.option("--until", type=MomentParam(), metavar="TIME", help="Only events stored before then.")
@click.option(
    "--only-missing", is_flag=True, help="Leave out events that this version has processed already."
)
@click.option(
    "--rate", type=click.FloatRange(0.001, 100_000), metavar="R", help="Start at most R events per second."
)
@click.option(
    "--max-failures",
    type=NumberParam(1, 10_000),
    metavar="N",
    help="Stop when the projector has N new dead letters. Default: 100.",
)
@app_option
@reason_option
@dry_run_option
@yes_option
@output_option
@api_options
def rebuild(
    client: Client, dry_run: bool, yes: bool, output: str | None, types: tuple[str, ...], **options: Any
) -> None:
    """Replay all stored events of a stream through one projector, in order.

    Workers that have the projector execute the rebuild; it survives restarts. Events whose projection is
    unfinished or has a dead letter are skipped. Your application must be known: use --app, or a server that
    has it.

    To replace a projector, declare a new version next to the old one, deploy it to all consumers and workers,
    rebuild it with --only-missing, and remove the old one when the rebuild is done.
    """
    body = {name: value for name, value in options.items() if value is not None}
    body |= {"types": list(types)} if types else {}
    found = client.post(f"{PATH}/preview", body)
    name = f"{found['projector']} v{found['version']}"
    what = f"rebuild {name} from {plural(found['events'], 'event')} of stream {found['stream']!r}"
    if not confirm(what, client.where, dry_run=dry_run, yes=yes):
        return
    started = client.post(PATH, body)
    if (form := chosen(output)) in JSON:
        show_json(started, form)
    see = f"redrive events rebuilds view {started['id']}"
    notice(f"Started rebuild {started['id']}. See its progress with `{see}`.")


@click.group(cls=CommandGroup)
def rebuilds() -> None:
    """Manage rebuilds: list, view, pause, resume, cancel."""


@rebuilds.command("list")
@limit_option
@output_option
@api_options
def list_rebuilds(client: Client, limit: int | None, output: str | None) -> None:
    """List rebuilds, newest first."""
    rows = NewestRows.read(client, PATH, limit)
    form = chosen(output)
    show_rows(rows, COLUMNS if form == "table" else FIELDS, form, flat=_flat, empty="No rebuilds.")
    rows.mention_rest()


@rebuilds.command()
@click.argument("rebuild_id", metavar="ID")
@output_option
@api_options
def view(client: Client, rebuild_id: str, output: str | None) -> None:
    """Show a rebuild and its progress."""
    found = _read(client, rebuild_id)
    show_one(found, FIELDS, output, lambda screen: _draw(screen, found), piped=True)


@rebuilds.command()
@click.argument("rebuild_id", metavar="ID")
@reason_option
@dry_run_option
@api_options
def pause(client: Client, rebuild_id: str, reason: str, dry_run: bool) -> None:
    """Pause a rebuild. Executions that it has started finish."""
    _change(client, rebuild_id, "pause", "paused", reason, dry_run)


@rebuilds.command()
@click.argument("rebuild_id", metavar="ID")
@reason_option
@dry_run_option
@api_options
def resume(client: Client, rebuild_id: str, reason: str, dry_run: bool) -> None:
    """Resume a paused or stopped rebuild."""
    _change(client, rebuild_id, "resume", "resumed", reason, dry_run)


@rebuilds.command()
@click.argument("rebuild_id", metavar="ID")
@reason_option
@dry_run_option
@yes_option
@api_options
def cancel(client: Client, rebuild_id: str, reason: str, dry_run: bool, yes: bool) -> None:
    """Cancel a rebuild. Executions that it has started finish."""
    if dry_run or confirm(f"cancel rebuild {rebuild_id}", client.where, dry_run=False, yes=yes):
        _change(client, rebuild_id, "cancel", "cancelled", reason, dry_run)


def _change(client: Client, rebuild_id: str, verb: str, done: str, reason: str, dry_run: bool) -> None:
    found = _read(client, rebuild_id)
    what = f"rebuild {found['id']}"
    require_state(OPERATION_TRANSITIONS, done, found["state"], what, done)
    if not report_dry_run(f"{verb} {what} of {found['projector']} v{found['version']}", dry_run):
        client.post(f"{PATH}/{segment(found['id'])}/{verb}", {"reason": reason})
        notice(f"{done.capitalize()} {what}.")


def _read(client: Client, rebuild_id: str) -> Row:
    with explain_ids("rebuild", [rebuild_id], "redrive events rebuilds list"):
        found: Row = client.get(f"{PATH}/{segment(rebuild_id)}")
    return found


def _flat(found: Row) -> Row:
    name = f"{found['stream']}: {found['projector']} v{found['version']}"
    return {**found, "name": name, "progress": f"{found['seen']:,} of {found['total']:,}"}


def _draw(screen: Screen, found: Row) -> None:
    screen.headline(f"Rebuild of {found['projector']} v{found['version']}", styled_status(found))
    screen.aside([f"rebuild {found['id']}", f"stream {found['stream']}"])
    out("")
    screen.facts(_facts(found))
    if commands := list(_next(found)):
        screen.next_steps(commands)


def _facts(found: Row) -> Iterator[tuple[str, str | None]]:
    yield "read", f"{found['seen']:,} of {plural(found['total'], 'event')}"
    yield "executions started", f"{found['started']:,}"
    yield "skipped", f"{found['skipped']:,}" if found["skipped"] else None
    yield "stopped", found["stopped_because"]["text"] if found["stopped_because"] else None
    yield "types", ", ".join(found["types"])
    yield "since", stamp(found["since"]) if found["since"] else None
    yield "until", stamp(found["until"]) if found["until"] else None
    yield "only missing", "yes" if found["only_missing"] else None
    yield "rate", pace(found["rate"]) if found["rate"] else None
    yield "created", f"{stamp(found['created_at'])} by {found['created_by']}"
    yield "reason", found["reason"]
    yield "ended", stamp(found["ended_at"]) if found["ended_at"] else None


def _next(found: Row) -> Iterator[tuple[str, str]]:
    if found["state"] == "RUNNING":
        yield f"redrive events rebuilds pause {found['id']}", "pause the rebuild"
    if found["state"] in ("PAUSED", "STOPPED"):
        yield f"redrive events rebuilds resume {found['id']}", "continue the rebuild"
        yield f"redrive events rebuilds cancel {found['id']}", "end it"
    if found["stopped_because"]:
        workflow = f"{found['stream']}:{found['projector']}:v{found['version']}"
        yield f"redrive dlq list is:live workflow:{workflow}", "see what failed"
