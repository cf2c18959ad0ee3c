"""`redrive dlq stats`: figures of the dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.dlq.selection import PATH
from redrive.cli.output import JSON, Row, chosen, output_option, screen, show_json, show_rows
from redrive.cli.terminal import out
from redrive.cli.timestamps import ago
from redrive.words.number import plural
from redrive.words.time import duration

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

LIFETIME = {
    "enqueued_total": "came to be",
    "retry_success": "replayed steps that succeeded",
    "retry_failed": "replayed steps that failed",
    "manually_retried": "replayed by hand",
    "exhausted": "given up after automatic replays",
    "archived": "archived",
    "refused": "refused, as the queue was full",
}


@click.command()
@click.option("--queue", metavar="NAME", help="Of this queue alone.")
@output_option
@api_options
def stats(client: Client, queue: str | None, output: str | None) -> None:
    """Show how many there are, of which kinds, and how old."""
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
    size, most = figures["queue_size"], figures["max_size"]
    full = "" if most is None else f" of at most {most:,} ({figures['utilization_percent']:g} %)"
    out((f"{plural(size, 'dead letter')} not closed{full}", "bold"))
    screen.facts([("the oldest", oldest)])
    for title, key in (
        ("States", "status_breakdown"),
        ("Kinds of errors", "error_categories"),
        ("Automatic replays", "retry_policies"),
    ):
        if figures[key]:
            screen.heading(title)
            largest_first = sorted(figures[key].items(), key=lambda item: -item[1])
            screen.facts((name, f"{number:,}") for name, number in largest_first)
    screen.heading("So far")
    screen.facts((words, f"{figures['lifetime_stats'][name]:,}") for name, words in LIFETIME.items())
    if not figures["is_processor_running"]:
        out("\nNothing is replayed automatically now: no worker runs.")
    else:
        out(f"\nLooked at for automatic replays every {duration(figures['retry_interval_seconds'])}.")


def _flat(figures: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
