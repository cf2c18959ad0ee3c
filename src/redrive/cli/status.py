"""`redrive status`: on one screen, what is broken, whether it heals by itself, and what to type next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.listing import JSON
from redrive.cli.output import Row, chosen, output_option, show_fields, show_json
from redrive.cli.status_screen import counts, figures, needing, tell_status
from redrive.cli.workers import is_heard
from redrive.model.overview import Span

REFRESH = 2.0


@click.command()
@click.option(
    "--span",
    type=click.Choice(list(map(str, Span))),
    default=str(Span.DAY),
    show_default=True,
    help="How far to look back.",
)
@click.option("--watch", is_flag=True, help="Show it again every 2 seconds, on a terminal.")
@output_option
@api_options
def status(client: Client, span: str, watch: bool, output: str | None) -> None:
    """What needs you, what heals itself, and what runs, on one screen.

    Exits with 0, whatever there is to see; `-o json` has it for programs.
    """
    if watch and chosen(output) != "table":
        raise click.UsageError("--watch is for a terminal.")
    _show(client, span, output)
    while watch:
        time.sleep(REFRESH)
        found = read_status(client, span)
        click.clear()
        tell_status(found, client.where)


def _show(client: Client, span: str, output: str | None) -> None:
    found: dict[str, Any] = read_status(client, span)
    if (form := chosen(output)) in JSON:
        show_json(found, indent=2 if form == "json" else None)
    elif form != "table":
        row = figures(found)
        show_fields(row, list(row), form)
    else:
        tell_status(found, client.where)


MAX_GROUPS = 5
MAX_RUNS = 200
"""Of those that are in flight: so many are looked at."""
UNDER_WAY = ("RUNNING", "PAUSED", "STOPPED")


def read_status(client: Client, span: str) -> dict[str, Any]:
    operations = client.get("/api/v1/operations", size=20)["items"]
    groups = client.get("/api/v1/groups", q="is:needs-you", sort="occurrences", size=MAX_GROUPS)
    queues, workers = client.get("/api/v1/queues")["items"], client.get("/api/v1/workers")["items"]
    return {
        "overview": client.get("/api/v1/overview", span=span),
        "breakers": client.get("/api/v1/breakers")["items"],
        "queues": queues,
        "workers": workers,
        "abandoned": _abandoned(client, workers) if counts(queues, "executing") else [],
        "groups": sorted(groups["items"], key=needing, reverse=True),
        "replays": [each for each in operations if each["state"] in UNDER_WAY],
    }


def _abandoned(client: Client, workers: Sequence[Row]) -> list[str]:
    """The ids of runs in flight whose worker is gone: their leases have expired, or are about to."""
    heard = {each["id"] for each in workers if is_heard(each)}
    runs = client.get("/api/v1/runs", q="is:executing", size=MAX_RUNS)["items"]
    return [each["id"] for each in runs if each["worker"] not in heard]
