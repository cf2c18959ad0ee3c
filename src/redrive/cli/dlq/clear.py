"""`redrive dlq clear`: empties a stand-alone dead-letter queue for ever."""

from __future__ import annotations

import click

from redrive.cli.asking import agreed, dry_run_option, yes_option
from redrive.cli.client import Client
from redrive.cli.dlq.selection import PREFIX, letters, letters_are
from redrive.cli.reach import reach_options
from redrive.cli.text import notice


@click.command()
@click.argument("queue", metavar="QUEUE")
@click.option(
    "--expect",
    type=click.IntRange(0, 1_000_000),
    required=True,
    metavar="N",
    help="How many dead letters that is; if it is another number, nothing is removed.",
)
@dry_run_option
@yes_option
@reach_options
def clear(client: Client, queue: str, expect: int, dry_run: bool, yes: bool) -> None:
    """Remove all dead letters of a stand-alone queue, for ever.

    QUEUE is the name of a DeadLetterQueue, such as dlq:default. Dead letters of runs cannot be removed: they
    are part of the history of these runs; close them.
    """
    full = queue if queue.startswith("dlq:") else f"dlq:{queue}"
    what = f"remove the {letters(expect)} of {full} for ever, on {client.where}"
    if agreed(what, dry_run=dry_run, yes=yes):
        body = {"queue": full, "expect": expect, "confirm": "clear"}
        removed = client.post(f"{PREFIX}/clear", body)["changed"]
        notice(f"Of {full}, {letters_are(removed)} removed.")
