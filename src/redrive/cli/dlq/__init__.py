"""`redrive dlq`: list dead letters and their statistics; the other commands are in separate modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.client import Client
from redrive.cli.commands import CommandGroup, QueryCommand, query_argument
from redrive.cli.connection import api_options
from redrive.cli.dlq.change import archive, assign, clear, ignore, note, reopen, resolve, tag
from redrive.cli.dlq.export import export
from redrive.cli.dlq.group import group
from redrive.cli.dlq.groups import groups
from redrive.cli.dlq.replay import replay
from redrive.cli.dlq.selection import PATH
from redrive.cli.dlq.strategy import strategy
from redrive.cli.dlq.view import reveal, view
from redrive.cli.options import limit_option, output_option
from redrive.cli.output import JSON, Listing, chosen, screen, show_json, show_rows
from redrive.cli.table import Row, TableColumn, ago, since
from redrive.cli.terminal import out
from redrive.words.failure import headline
from redrive.words.number import plural
from redrive.words.time import duration

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

LETTERS = Listing(
    PATH,
    (
        TableColumn("id", whole=True),
        TableColumn("state", whole=True, shown="status"),
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
LIFETIME = {
    "enqueued_total": "created",
    "retry_success": "replayed steps that succeeded",
    "retry_failed": "replayed steps that failed",
    "manually_retried": "replayed by hand",
    "exhausted": "automatic replays used up",
    "archived": "archived",
    "refused": "rejected because the queue was full",
}


@click.group(cls=CommandGroup)
def dlq() -> None:
    """Find, understand, replay and close dead letters.

    QUERY uses the query language: is:open category:timeout step:charge since:2h "connection reset". Without
    it, lists show dead letters that are not closed; is:any shows all.
    """


@dlq.command("list", cls=QueryCommand)
@query_argument
@click.option("--status", metavar="STATE", help="Only dead letters in this state; same as is:STATE.")
@click.option("--oldest", is_flag=True, help="Show the oldest first.")
@limit_option
@output_option
@api_options
def list_letters(
    client: Client, query: str, status: str | None, oldest: bool, limit: int | None, output: str | None
) -> None:
    """List dead letters, newest first.

    \b
    redrive dlq list is:open category:timeout since:2h
    redrive dlq list step:charge -error:TimeoutError "connection reset"
    redrive dlq list --status pending --limit 10
    """
    combined = " ".join(filter(None, (query, f"is:{status}" if status else "")))
    LETTERS.show(client, combined, limit, output, order="oldest" if oldest else None)


@click.command()
@click.option("--queue", metavar="NAME", help="Only this queue.")
@output_option
@api_options
def stats(client: Client, queue: str | None, output: str | None) -> None:
    """Show the number, kinds and age of dead letters."""
    figures = client.get("/api/v1/statistics", queue=queue)
    form = chosen(output)
    if form in JSON:
        show_json(figures, form)
    elif form == "table":
        _draw(screen(), figures, _oldest(client, queue))
    else:
        rows = ({"figure": name, "value": value} for name, value in _flat(figures))
        show_rows(rows, ("figure", "value"), form)


def _oldest(client: Client, queue: str | None) -> str | None:
    query = "is:live"
    if queue is not None:
        quoted = queue.replace("\\", "\\\\").replace('"', '\\"')
        query = f'is:live queue:"{quoted}"'
    first = next(client.pages(PATH, limit=1, q=query, order="oldest"), None)
    return None if first is None else ago(first["created_at"])


def _draw(screen: Screen, figures: Row, oldest: str | None) -> None:
    size, maximum = figures["queue_size"], figures["max_size"]
    full = "" if maximum is None else f" of at most {maximum:,} ({figures['utilization_percent']:g}%)"
    out((f"{plural(size, 'dead letter')} not closed{full}", "bold"))
    screen.facts([("oldest", oldest)])
    for title, key in (
        ("States", "status_breakdown"),
        ("Error categories", "error_categories"),
        ("Automatic replays", "retry_policies"),
    ):
        if figures[key]:
            screen.heading(title)
            largest_first = sorted(figures[key].items(), key=lambda item: -item[1])
            screen.facts((name, f"{number:,}") for name, number in largest_first)
    screen.heading("Totals since the start")
    screen.facts((words, f"{figures['lifetime_stats'][name]:,}") for name, words in LIFETIME.items())
    if not figures["is_processor_running"]:
        out("\nAutomatic replays are not running: no worker is running.")
    else:
        out(f"\nWorkers check for due automatic replays every {duration(figures['retry_interval_seconds'])}.")


def _flat(figures: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


for command in (
    groups,
    view,
    reveal,
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
    strategy,
):
    dlq.add_command(command)
