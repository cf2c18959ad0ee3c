"""`redrive dlq stats`: figures of the dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.dlq.selection import PREFIX
from redrive.cli.listing import JSON
from redrive.cli.output import chosen, output_option, show_json, show_rows
from redrive.cli.screen import facts, heading
from redrive.cli.terminal import ago, bold, out
from redrive.cli.times import length

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
        show_json(figures, indent=2 if form == "json" else None)
    elif form == "table":
        _tell(figures, _oldest(client, queue))
    else:
        show_rows(
            ({"figure": name, "value": value} for name, value in _flat(figures)), ("figure", "value"), form
        )


def _oldest(client: Client, queue: str | None) -> str | None:
    query = "is:live" if queue is None else f'is:live queue:"{_quoted(queue)}"'
    first = next(client.pages(PREFIX, limit=1, q=query, order="oldest"), None)
    return None if first is None else ago(first["created_at"])


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def _tell(figures: dict[str, Any], oldest: str | None) -> None:
    size, most = figures["queue_size"], figures["max_size"]
    full = "" if most is None else f" of at most {most:,} ({figures['utilization_percent']:g} %)"
    out(bold(f"{size:,} dead letter{'s' * (size != 1)} not closed{full}"))
    facts([("the oldest", oldest)])
    for title, key in (
        ("States", "status_breakdown"),
        ("Kinds of errors", "error_categories"),
        ("Automatic replays", "retry_policies"),
    ):
        if figures[key]:
            heading(title)
            facts((name, f"{number:,}") for name, number in _largest_first(figures[key]))
    heading("So far")
    facts((words, f"{figures['lifetime_stats'][name]:,}") for name, words in LIFETIME.items())
    if not figures["is_processor_running"]:
        out("\nNothing is replayed automatically now: no worker runs.")
    else:
        out(f"\nLooked at for automatic replays every {length(figures['retry_interval_seconds'])}.")


def _largest_first(numbers: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(numbers.items(), key=lambda each: -each[1])


def _flat(figures: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
