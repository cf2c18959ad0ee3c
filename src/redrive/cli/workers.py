"""`redrive workers`: who works, since when, on what, and with which version of the code."""

from __future__ import annotations

import click

from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.output import Row, TableColumn, chosen, output_option, show_rows
from redrive.cli.terminal import notice
from redrive.cli.timestamps import ago
from redrive.words.time import age

PATH = "/api/v1/workers"
START = "redrive worker MODULE:ATTRIBUTE"
SILENT_SECONDS = 60.0
"""A worker without a heartbeat for so long is dead, whatever its state says."""
HEARD_SECONDS = 25.0
"""A worker that has missed two heartbeats may be dead."""

ORDER = ("silent", "running", "stopping", "stopped")
COLUMNS = (
    TableColumn("place", "worker"),
    TableColumn("state", whole=True),
    TableColumn("seconds_silent", "last heard", lambda seconds: f"{age(seconds)} ago"),
    "busy",
    TableColumn("code_version", "version"),
    "queues",
    TableColumn("started_at", "started", ago),
)
FIELDS = (
    "id",
    "state",
    "seconds_silent",
    "in_flight",
    "concurrency",
    "code_version",
    "queues",
    "host",
    "process",
    "started_at",
)


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also those that have stopped.")
@output_option
@api_options
def workers(client: Client, everything: bool, output: str | None) -> None:
    """List the workers; those that have fallen silent come first.

    A worker says every few seconds that it is there. One that is silent for a minute is dead or cut off;
    its work is given to others. Those that have stopped are shown with --all.
    """
    found = [worker for worker in client.get(PATH)["items"] if everything or worker["state"] != "stopped"]
    found.sort(key=lambda worker: (ORDER.index(worker_state(worker)), worker["started_at"]))
    form = chosen(output)
    none = f"No worker is at work: `{START}` starts one."
    show_rows(found, COLUMNS if form == "table" else FIELDS, form, flat=_flat, empty=none)
    if silent := sum(worker_state(worker) == "silent" for worker in found):
        notice(f"{silent:,} fell silent without stopping: look at their processes and logs.")


def worker_state(worker: Row) -> str:
    """Its state, or "silent" where it should be at work."""
    state = str(worker["state"])
    if state != "stopped" and worker["seconds_silent"] > SILENT_SECONDS:
        return "silent"
    return state if state in ORDER else "running"


def is_at_work(worker: Row) -> bool:
    return worker_state(worker) == "running"


def is_heard(worker: Row) -> bool:
    return is_at_work(worker) and worker["seconds_silent"] <= HEARD_SECONDS


def _flat(worker: Row) -> Row:
    """The API tells host and process to the organization that owns the installation."""
    place = worker["id"] if worker["host"] is None else f"{worker['host']}:{worker['process']}"
    busy = f"{worker['in_flight']:,} of {worker['concurrency']:,}"
    return {**worker, "state": worker_state(worker), "place": place, "busy": busy}
