"""`redrive status`: on one screen, what is broken, whether it heals by itself, and what to type next."""

from __future__ import annotations

import time
from typing import Any

import click

from redrive.cli.client import Client
from redrive.cli.listing import JSON
from redrive.cli.reach import reach_options
from redrive.cli.status.read import read_status
from redrive.cli.status.screen import figures, tell_status
from redrive.cli.table import chosen, output_option, show_fields, show_json
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
@reach_options
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
