"""`redrive dlq`: dead letters, work that has failed for good and waits for somebody."""

from __future__ import annotations

import click

from redrive.cli.client import Client
from redrive.cli.commands import CommandGroup, QueryCommand, query_argument
from redrive.cli.connection import api_options
from redrive.cli.dlq.change import archive, assign, clear, ignore, note, reopen, resolve, tag
from redrive.cli.dlq.export import export
from redrive.cli.dlq.group import group
from redrive.cli.dlq.groups import groups
from redrive.cli.dlq.replay import replay
from redrive.cli.dlq.stats import stats
from redrive.cli.dlq.view import view
from redrive.cli.listing import Listing
from redrive.cli.output import TableColumn, limit_option, output_option
from redrive.cli.timestamps import since
from redrive.words.failure import headline

LETTERS = Listing(
    "/api/v1/dead-letters",
    (
        TableColumn("id", whole=True),
        TableColumn("state"),
        TableColumn("last_failed_at", "age", since),
        TableColumn("workflow"),
        TableColumn("step"),
        TableColumn("error"),
    ),
    "dead letters",
    flat=lambda letter: {
        **letter,
        "error": headline(letter["message"], letter["error_type"], letter["title"]),
    },
    min_width={"workflow": 100, "step": 64},
    default="is:live",
)


@click.group(cls=CommandGroup)
def dlq() -> None:
    """Dead letters: find them, understand them, replay or close them.

    QUERY is in the query language: is:open category:timeout step:charge since:2h "connection reset". Without
    one, lists show what is not closed yet; is:any is everything.
    """


@dlq.command("list", cls=QueryCommand)
@query_argument
@click.option("--status", metavar="STATE", help="Only those in this state; the same as is:STATE.")
@click.option("--oldest", is_flag=True, help="The oldest first.")
@limit_option
@output_option
@api_options
def list_letters(
    client: Client, query: str, status: str | None, oldest: bool, limit: int | None, output: str | None
) -> None:
    """List dead letters, the newest first.

    \b
    redrive dlq list is:open category:timeout since:2h
    redrive dlq list step:charge -error:TimeoutError "connection reset"
    redrive dlq list --status pending --limit 10
    """
    asked = " ".join(filter(None, (query, f"is:{status}" if status else "")))
    LETTERS.show(client, asked, limit, output, order="oldest" if oldest else None)


for command in (
    groups,
    view,
    replay,
    resolve,
    ignore,
    archive,
    reopen,
    assign,
    tag,
    note,
    group,
    export,
    stats,
    clear,
):
    dlq.add_command(command)
