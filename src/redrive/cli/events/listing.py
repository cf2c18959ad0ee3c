"""`redrive events list`: the stored events of streams, and the states of their projections."""

from __future__ import annotations

from collections import Counter

import click

from redrive.cli.client import Client
from redrive.cli.commands import QueryCommand, query_argument
from redrive.cli.connection import api_options
from redrive.cli.options import limit_option, output_option
from redrive.cli.output import Listing
from redrive.cli.table import Row, TableColumn, since
from redrive.words.state import status

PATH = "/api/v1/stored-events"


def summary(projections: list[Row]) -> str:
    """Count the projections by state: "2 succeeded, 1 dead letter"."""
    counts = Counter(projection["status"] for projection in projections)
    return ", ".join(f"{number} {status(state)}" for state, number in counts.items()) or "none"


def _flat(event: Row) -> Row:
    return event | {"projections": summary(event["projections"])}


EVENTS = Listing(
    PATH,
    (
        TableColumn("id", whole=True),
        TableColumn("stored_at", "age", since),
        TableColumn("stream"),
        TableColumn("type"),
        TableColumn("user"),
        TableColumn("dedupe_key", "key"),
        TableColumn("projections"),
    ),
    "events",
    _flat,
    min_width={"stream": 90, "user": 110, "dedupe_key": 120},
)


@click.command("list", cls=QueryCommand)
@query_argument
@limit_option
@output_option
@api_options
def list_events(client: Client, query: str, limit: int | None, output: str | None) -> None:
    """List stored events, newest first.

    QUERY uses the query language: is:failed projector:qscore type:score.changed since:2h. Without it, all
    events are listed.
    """
    EVENTS.show(client, query, limit, output)
