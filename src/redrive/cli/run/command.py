"""`redrive run`: what was started, how far it is, and why."""

from __future__ import annotations

import click

from redrive.cli.client import Client
from redrive.cli.listing import Listing
from redrive.cli.ordered import OrderedGroup
from redrive.cli.query import QueryCommand, query_argument
from redrive.cli.reach import reach_options
from redrive.cli.run.change import cancel, retry
from redrive.cli.run.view import view
from redrive.cli.run.watch import watch
from redrive.cli.table import Column, limit_option, output_option
from redrive.cli.times import since

RUNS = Listing(
    "/api/v1/runs",
    (
        Column("id", whole=True),
        "state",
        Column("submitted_at", "age", since),
        "workflow",
        "step",
        Column("attempt", "step tries"),
    ),
    "runs",
    spare={"workflow": 76, "attempt": 84},
)


@click.group(cls=OrderedGroup)
def run() -> None:
    """Runs: list them, read the story of one, watch, cancel, retry."""


@run.command("list", cls=QueryCommand)
@query_argument
@limit_option
@output_option
@reach_options
def list_runs(client: Client, query: str, limit: int | None, output: str | None) -> None:
    """List runs, the newest first.

    QUERY is in the query language: is:failed workflow:checkout since:2h. Without one it is every run.
    """
    RUNS.show(client, query, limit, output)


for command in (view, watch, cancel, retry):
    run.add_command(command)
