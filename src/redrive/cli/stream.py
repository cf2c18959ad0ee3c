"""`redrive stream`: read the Redis streams of an application, see how far they are, pause and resume them."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

import click

from redrive.cli.application import application, log_format_option, set_up_log
from redrive.cli.checks import read_named, report_dry_run
from redrive.cli.client import Client, segment
from redrive.cli.commands import CommandGroup
from redrive.cli.connection import api_options
from redrive.cli.options import (
    GlobalOptions,
    dry_run_option,
    output_option,
    reason_option,
    settings_options,
)
from redrive.cli.output import show_one, show_rows
from redrive.cli.table import Row, TableColumn, ago, stamp
from redrive.cli.terminal import escape, notice, out, styled_state
from redrive.words.number import plural

if TYPE_CHECKING:
    from redrive.cli.screen import Line, Screen

PATH = "/api/v1/streams"
COLUMNS = (
    TableColumn("name", whole=True),
    TableColumn("state", whole=True),
    "lag",
    "pending",
    TableColumn("oldest_at", "oldest", ago),
    TableColumn("rate", "per second"),
    "stored",
    "dead",
    TableColumn("gap_count", "gaps"),
    TableColumn("reported_at", "reported", ago),
    TableColumn("error", "last error"),
)
FIELDS = (
    *("name", "state", "lag", "pending", "oldest_at", "rate", "stored", "duplicates", "dead", "taken_over"),
    *("waiting", "gap_count", "paused_by", "error", "reported_at"),
)


@click.group(cls=CommandGroup)
def stream() -> None:
    """Manage Redis streams: consume, list, view, pause, resume."""


@stream.command()
@click.argument("target", metavar="MODULE:ATTRIBUTE")
@click.option("--stream", "names", multiple=True, metavar="NAME", help="Only read this stream; repeatable.")
@log_format_option
@settings_options
@click.pass_obj
def consume(given: GlobalOptions, target: str, names: tuple[str, ...], log_format: str | None) -> None:
    """Read streams until SIGTERM or Ctrl-C, and store their entries as events.

    MODULE:ATTRIBUTE is your application, such as shop.work:app, imported from this directory. Any number of
    these processes may run. The runs of projectors are executed by workers.
    """
    app = application(target, given, ())
    from redrive.streams.serve import run_consumers, streams_of  # slow to import

    set_up_log(log_format)
    streams = streams_of(app, names)
    notice(f"Reading {plural(len(streams), 'stream')}. Press Ctrl-C to stop.")
    run_consumers(app, names)


@stream.command("list")
@output_option
@api_options
def list_streams(client: Client, output: str | None) -> None:
    """List streams: how far they have been read, as their consumers last reported."""
    show_rows(client.get(PATH)["items"], COLUMNS, output, flat=_flat, empty="No streams.")


@stream.command()
@click.argument("name")
@output_option
@api_options
def view(client: Client, name: str, output: str | None) -> None:
    """Show a stream: its lag, its projectors, gaps and the last error."""
    found = read_named(client, PATH, "stream", name)
    show_one(found, FIELDS, output, lambda screen: _draw(screen, found), flat=_flat, piped=True)


@stream.command()
@click.argument("name")
@reason_option
@dry_run_option
@api_options
def pause(client: Client, name: str, reason: str, dry_run: bool) -> None:
    """Pause a stream: consumers read nothing more. Runs of its projectors continue."""
    found = read_named(client, PATH, "stream", name)
    if found["paused"]:
        by = f" by {found['paused_by']}" if found["paused_by"] else ""
        notice(f"Stream {name!r} is already paused{escape(by)}.")
    elif not report_dry_run(f"pause stream {name!r}", dry_run):
        client.post(f"{PATH}/{segment(name)}/pause", {"reason": reason})
        notice(f"Paused stream {name!r}. Resume it with `redrive stream resume {quote(name)}`.")


@stream.command()
@click.argument("name")
@reason_option
@dry_run_option
@api_options
def resume(client: Client, name: str, reason: str, dry_run: bool) -> None:
    """Resume a paused stream."""
    found = read_named(client, PATH, "stream", name)
    if not found["paused"]:
        notice(f"Stream {name!r} is not paused.")
    elif not report_dry_run(f"resume stream {name!r}", dry_run):
        client.post(f"{PATH}/{segment(name)}/resume", {"reason": reason})
        notice(f"Resumed stream {name!r}.")


def _flat(found: Row) -> Row:
    error = found["last_error"]
    return {**found, "gap_count": len(found["gaps"]), "error": None if error is None else error["text"]}


def _draw(screen: Screen, found: Row) -> None:
    screen.headline(found["name"], styled_state(found["state"].upper(), found["state"]))
    screen.aside([f"Redis key {found['key']}" if found["key"] else None, f"generation {found['generation']}"])
    out("")
    screen.facts(_facts(found))
    if found["projectors"]:
        screen.heading("Projectors")
        screen.columns(map(_projector, found["projectors"]))
    if found["gaps"]:
        screen.heading("Gaps: entries that Redis removed before they were read")
        screen.columns(
            (stamp(gap["at"]), f"after {gap['after']}, before {gap['before']}") for gap in found["gaps"]
        )
    screen.next_steps(_next(found))


def _facts(found: Row) -> Iterator[tuple[str, str | None]]:
    if found["paused"]:
        yield "paused", f"{stamp(found['paused_at'])} by {found['paused_by']}"
    yield "held back", found["held_back"]["text"] if found["held_back"] else None
    yield "lag", None if found["lag"] is None else plural(found["lag"], "entry", "entries")
    yield "pending", None if found["pending"] is None else plural(found["pending"], "entry", "entries")
    yield "oldest", ago(found["oldest_at"]) if found["oldest_at"] else None
    yield "rate", None if found["rate"] is None else f"{found['rate']:,.1f} per second"
    yield "stored", f"{found['stored']:,}, and {plural(found['duplicates'], 'duplicate')}"
    yield "dead letters", f"{found['dead']:,}" if found["dead"] else None
    yield "taken over", f"{found['taken_over']:,}" if found["taken_over"] else None
    yield "waiting for order", f"{found['waiting']:,}" if found["waiting"] else None
    yield "reader", found["reader"]
    if found["last_error"]:
        yield "last error", f"{found['last_error']['text']}, {ago(found['error_at'])}"
    yield "reported", ago(found["reported_at"]) if found["reported_at"] else "never: no consumer has run yet"


def _projector(projector: Row) -> tuple[Line, ...]:
    types = ", ".join(projector["types"]) or "every type"
    order = f"ordered by {projector['ordered_by']}" if projector["ordered_by"] else ""
    return (
        f"{projector['name']} v{projector['version']}",
        types,
        f"queue {projector['queue']}",
        (order, "dim"),
    )


def _next(found: Row) -> Iterator[tuple[str, str]]:
    if found["paused"]:
        yield f"redrive stream resume {quote(found['name'])}", "read on"
    yield f"redrive events list stream:{quote(found['name'])}", "list its events"
    if found["dead"]:
        query = f'task:"{found["name"]}: store entry"'
        yield f"redrive dlq list {quote(query)}", "list its dead letters"
