"""`redrive status`: on one screen, what is broken, what heals itself, and what to type next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.options import output_option
from redrive.cli.output import chosen, screen, show_one
from redrive.cli.status_screen import count_runs, draw_status, need_attention, totals
from redrive.cli.table import Row
from redrive.cli.worker import is_heard
from redrive.model.statistics import Span

REFRESH_SECONDS = 2.0
MAX_GROUPS = 5
MAX_RUNS = 200
"""Runs in flight that are looked at."""
UNFINISHED = ("RUNNING", "PAUSED", "STOPPED")


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
    found = _read(client, span)
    show_one(
        found, list(totals(found)), output, lambda drawn: draw_status(drawn, found, client.where), flat=totals
    )
    while watch:
        time.sleep(REFRESH_SECONDS)
        found = _read(client, span)
        click.clear()
        draw_status(screen(), found, client.where)


def _read(client: Client, span: str) -> dict[str, Any]:
    operations = client.get("/api/v1/operations", size=20)["items"]
    groups = client.get("/api/v1/groups", q="is:needs-you", sort="occurrences", size=MAX_GROUPS)
    queues, workers = client.get("/api/v1/queues")["items"], client.get("/api/v1/workers")["items"]
    return {
        "overview": client.get("/api/v1/overview", span=span),
        "breakers": client.get("/api/v1/breakers")["items"],
        "queues": queues,
        "workers": workers,
        "abandoned": _abandoned(client, workers) if count_runs(queues, "executing") else [],
        "groups": sorted(groups["items"], key=need_attention, reverse=True),
        "replays": [operation for operation in operations if operation["state"] in UNFINISHED],
    }


def _abandoned(client: Client, workers: Sequence[Row]) -> list[str]:
    """The ids of runs in flight whose worker is gone: their leases have expired, or are about to."""
    heard = {worker["id"] for worker in workers if is_heard(worker)}
    runs = client.get("/api/v1/runs", q="is:executing", size=MAX_RUNS)["items"]
    return [run["id"] for run in runs if run["worker"] not in heard]
