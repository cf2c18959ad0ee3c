"""`redrive dlq groups`: failures that are the same, together."""

from __future__ import annotations

import re
from typing import Any

import click

from redrive.cli.client import Client
from redrive.cli.dlq.group_view import show_group
from redrive.cli.listing import Listing
from redrive.cli.query import QueryCommand, query_argument
from redrive.cli.reach import reach_options
from redrive.cli.table import Column, limit_option, output_option
from redrive.cli.text import short
from redrive.cli.times import since

_FINGERPRINT = re.compile(r"(?:fp:)?((?:v\d+:)?[0-9a-f]{6,64})")
_TOO_SHORT = re.compile(r"(?:fp:(?:v\d+:)?|v\d+:)[0-9a-f]{1,5}|(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{4,5}")
"""Figures alone, such as 500, may be looked for in the text."""


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "live": row["dead_letters"]["live"], "closed": row["dead_letters"]["closed"]}


GROUPS = Listing(
    "/api/v1/groups",
    (
        Column("fingerprint", "group", short, whole=True),
        "live",
        Column("occurrences", "seen"),
        Column("last_seen", "last", since),
        "state",
        "step",
        Column("title", "error"),
    ),
    "failure groups",
    _flat,
    usual="is:live",
)


@click.command(cls=QueryCommand)
@query_argument
@click.option(
    "--sort",
    type=click.Choice(("last_seen", "occurrences")),
    default="last_seen",
    show_default=True,
    help="What comes first.",
)
@limit_option
@output_option
@reach_options
def groups(client: Client, query: str, sort: str, limit: int | None, output: str | None) -> None:
    """List groups of the same failure, or show one.

    Without a QUERY these are the ones with dead letters that are not closed. At least 6 digits of a
    fingerprint name a group.
    """
    if _TOO_SHORT.fullmatch(query):
        raise click.UsageError(
            f"{query!r} is too short for a group: at least 6 digits of its fingerprint name it."
        )
    if found := _FINGERPRINT.fullmatch(query):
        show_group(client, found[1], output)
    else:
        GROUPS.show(client, query, limit, output, sort=sort)
