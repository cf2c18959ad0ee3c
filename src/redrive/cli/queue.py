"""`redrive queue`: list, pause and resume queues."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import click

from redrive.cli.checks import read_named, report_dry_run
from redrive.cli.client import Client, segment
from redrive.cli.commands import CommandGroup
from redrive.cli.connection import api_options
from redrive.cli.options import dry_run_option, output_option, reason_option
from redrive.cli.output import show_rows
from redrive.cli.table import Row, TableColumn, counted
from redrive.cli.terminal import escape, notice
from redrive.words.number import noun
from redrive.words.time import age

PATH = "/api/v1/queues"
PLACES = ("ready", "waiting", "held", "executing")

COLUMNS = (
    TableColumn("name", whole=True),
    TableColumn("paused", "state", lambda paused: "paused" if paused else "active"),
    TableColumn("ready", "queued"),
    TableColumn("oldest_seconds", "oldest", age),
    "waiting",
    TableColumn("held", "on hold"),
    TableColumn("executing", "running"),
    TableColumn("paused_by", "paused by"),
    "reason",
)


@click.group(cls=CommandGroup)
def queue() -> None:
    """Manage queues: list, pause, resume.

    Queued runs are ready for a free worker. Waiting runs are due later. Runs on hold wait for a breaker.
    """


@queue.command("list")
@output_option
@api_options
def list_queues(client: Client, output: str | None) -> None:
    """List queues, the number of runs in each, and who paused them.

    The organization that owns the installation sees the runs of all organizations.
    """
    none = "No queues: no run has been submitted yet."
    show_rows(client.get(PATH)["items"], COLUMNS, output, flat=_flat, empty=none)


@queue.command()
@click.argument("name")
@reason_option
@dry_run_option
@api_options
def pause(client: Client, name: str, reason: str, dry_run: bool) -> None:
    """Pause a queue. Running work finishes, and nothing new starts."""
    found = read_named(client, PATH, "queue", name)
    if found["paused"]:
        by = f" by {found['paused_by']}" if found["paused_by"] else ""
        why = f": {found['reason']}" if found["reason"] else ""
        notice(f"Queue {name!r} is already paused{escape(by + why)}.")
    elif not report_dry_run(f"pause queue {name!r} ({_ready(found)})", dry_run):
        client.post(f"{PATH}/{segment(name)}/pause", {"reason": reason})
        notice(f"Paused queue {name!r}. Resume it with `redrive queue resume {quote(name)}`.")


@queue.command()
@click.argument("name")
@dry_run_option
@api_options
def resume(client: Client, name: str, dry_run: bool) -> None:
    """Resume a paused queue."""
    found = read_named(client, PATH, "queue", name)
    if not found["paused"]:
        notice(f"Queue {name!r} is not paused.")
    elif not report_dry_run(f"resume queue {name!r} ({_ready(found)})", dry_run):
        client.post(f"{PATH}/{segment(name)}/resume")
        notice(f"Resumed queue {name!r}.")


def depths(queue: Row) -> Row:
    """Return the depths over all organizations if the caller may see them, else of its own."""
    found: Row = queue["overall"] or queue["own"]
    return found


def count_runs(queues: Sequence[Row], *places: str) -> int:
    """Count the runs in these places over all queues."""
    return sum(depths(queue)[place]["number"] for queue in queues for place in places)


def _ready(queue: Row) -> str:
    found = depths(queue)["ready"]
    return f"{counted(found)} ready {noun(found['number'], 'run')}"


def _flat(queue: Row) -> Row:
    found = depths(queue)
    counts = {name: found[name]["number"] for name in PLACES}
    reason, oldest = queue["reason"] or None, found["oldest_ready_seconds"]
    return {**queue, **counts, "reason": reason, "oldest_seconds": oldest}
