"""`redrive queue`: how deep the queues are, and pausing them."""

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
from redrive.words.time import age

PATH = "/api/v1/queues"
PLACES = ("ready", "waiting", "held", "executing")

COLUMNS = (
    TableColumn("name", whole=True),
    TableColumn("paused", "state", lambda paused: "PAUSED" if paused else "open"),
    "ready",
    TableColumn("oldest_seconds", "oldest", age),
    "waiting",
    "held",
    TableColumn("executing", "busy"),
    TableColumn("paused_by", "paused by"),
    "reason",
)


@click.group(cls=CommandGroup)
def queue() -> None:
    """Queues: list, pause, resume.

    Ready work waits for a worker, waiting work for its time, held work for a breaker.
    """


@queue.command("list")
@output_option
@api_options
def list_queues(client: Client, output: str | None) -> None:
    """List the queues, how deep they are, and who has paused them.

    In the organization that owns the installation, what all organizations have in them.
    """
    none = "There are no queues: nothing was ever submitted."
    show_rows(client.get(PATH)["items"], COLUMNS, output, flat=_flat, empty=none)


@queue.command()
@click.argument("name")
@reason_option
@dry_run_option
@api_options
def pause(client: Client, name: str, reason: str, dry_run: bool) -> None:
    """Begin nothing more that lies in a queue; what is under way is finished."""
    found = read_named(client, PATH, "queue", name)
    if found["paused"]:
        by = f" by {found['paused_by']}" if found["paused_by"] else ""
        why = f": {found['reason']}" if found["reason"] else ""
        notice(f"The queue {name!r} is paused already{escape(by + why)}.")
    elif not report_dry_run(f"pause the queue {name!r}, in which {_ready(found)}", dry_run):
        client.post(f"{PATH}/{segment(name)}/pause", {"reason": reason})
        notice(f"The queue {name!r} is paused; `redrive queue resume {quote(name)}` goes on with it.")


@queue.command()
@click.argument("name")
@dry_run_option
@api_options
def resume(client: Client, name: str, dry_run: bool) -> None:
    """Go on with a queue."""
    found = read_named(client, PATH, "queue", name)
    if not found["paused"]:
        notice(f"The queue {name!r} is not paused.")
    elif not report_dry_run(f"resume the queue {name!r}, in which {_ready(found)}", dry_run):
        client.post(f"{PATH}/{segment(name)}/resume")
        notice(f"The queue {name!r} goes on.")


def depths(queue: Row) -> Row:
    """Of all organizations, if the caller may see them."""
    found: Row = queue["overall"] or queue["own"]
    return found


def count_runs(queues: Sequence[Row], *places: str) -> int:
    """How many runs are in these places, in all queues together."""
    return sum(depths(queue)[place]["number"] for queue in queues for place in places)


def _ready(queue: Row) -> str:
    found = depths(queue)["ready"]
    return "1 run is ready" if found["number"] == 1 else f"{counted(found)} runs are ready"


def _flat(queue: Row) -> Row:
    found = depths(queue)
    counts = {name: found[name]["number"] for name in PLACES}
    reason, oldest = queue["reason"] or None, found["oldest_ready_seconds"]
    return {**queue, **counts, "reason": reason, "oldest_seconds": oldest}
