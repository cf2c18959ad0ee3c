"""`redrive workers`: who works, since when, on what, and with which version of the code."""

from __future__ import annotations

import click

from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.listing import JSON
from redrive.cli.output import Column, Row, chosen, output_option, show_rows
from redrive.cli.terminal import age, ago, notice

PATH = "/api/v1/workers"
START = "redrive worker MODULE:ATTRIBUTE"
SILENT_SECONDS = 60.0
"""One that has said nothing for so long is dead, whatever its state says."""
HEARD_SECONDS = 25.0
"""One that has missed to say twice that it is there may be dead: whoever waits for it is told."""

ORDER = ("silent", "running", "stopping", "stopped")
COLUMNS = (
    Column("place", "worker"),
    Column("state", whole=True),
    Column("seconds_silent", "last heard", lambda seconds: f"{age(seconds)} ago"),
    "busy",
    Column("code_version", "version"),
    "queues",
    Column("started_at", "started", ago),
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
    found = [each for each in client.get(PATH)["items"] if everything or each["state"] != "stopped"]
    found.sort(key=lambda each: (ORDER.index(standing(each)), each["started_at"]))
    form = chosen(output)
    rows = found if form in JSON else map(_flat, found)
    none = f"No worker is at work: `{START}` starts one."
    show_rows(rows, COLUMNS if form == "table" else FIELDS, form, empty=none)
    if silent := sum(standing(each) == "silent" for each in found):
        notice(f"{silent:,} fell silent without stopping: look at their processes and logs.")


def standing(worker: Row) -> str:
    """Its state, or silent where it should be at work."""
    state = str(worker["state"])
    if state != "stopped" and worker["seconds_silent"] > SILENT_SECONDS:
        return "silent"
    return state if state in ORDER else "running"


def is_at_work(worker: Row) -> bool:
    return standing(worker) == "running"


def is_heard(worker: Row) -> bool:
    return is_at_work(worker) and worker["seconds_silent"] <= HEARD_SECONDS


def _flat(worker: Row) -> Row:
    """Where it runs is what finds it; that is told to the organization that owns the installation."""
    place = worker["id"] if worker["host"] is None else f"{worker['host']}:{worker['process']}"
    busy = f"{worker['in_flight']:,} of {worker['concurrency']:,}"
    return {**worker, "state": standing(worker), "place": place, "busy": busy}
