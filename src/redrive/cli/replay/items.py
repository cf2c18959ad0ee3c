"""`redrive replay items`: each dead letter of a bulk replay, and what came of it."""

from __future__ import annotations

import click

from redrive.cli.client import Client, segment
from redrive.cli.listing import HOW_TO_SEE_MORE, JSON
from redrive.cli.reach import reach_options
from redrive.cli.replay.report import PATH, read_report
from redrive.cli.replay.words import helpful
from redrive.cli.table import Column, Row, chosen, limit_option, output_option, show_rows
from redrive.cli.text import notice, short
from redrive.cli.times import since
from redrive.model.replay import ReplayState

COLUMNS = (
    Column("dead_letter_id", "dead letter", whole=True),
    Column("state", whole=True),
    Column("ended_at", "age", since),
    Column("group", "failed as", whole=True),
    "note",
)
FIELDS = ("dead_letter_id", "state", "run_id", "started_at", "ended_at", "fingerprint_after", "note")


@click.command()
@click.argument("id")
@click.option(
    "--state",
    type=click.Choice(list(map(str, ReplayState)), case_sensitive=False),
    metavar="STATE",
    help=f"Only those in this state: {', '.join(ReplayState)}.",
)
@limit_option
@output_option
@reach_options
def items(
    client: Client,
    id: str,  # noqa: A002 - its name on the command line
    state: str | None,
    limit: int | None,
    output: str | None,
) -> None:
    """List the dead letters of a replay, in the order in which they are begun.

    \b
    redrive replay items 0123… --state FAILED
    """
    report, form = read_report(client, id), chosen(output)
    rows = client.pages(f"{PATH}/{segment(id)}/items", limit=limit, state=state)
    none = f"None of them is {state}." if state else "It has no items."
    if form in JSON:
        shown = show_rows(rows, FIELDS, form)
    else:
        shown = show_rows(map(_flat, rows), COLUMNS if form == "table" else FIELDS, form, empty=none)
    known = report["items"]
    total = known.get(state, 0) if state else sum(known.values())
    if total > shown:
        notice(f"These are {shown:,} of {total:,}; {HOW_TO_SEE_MORE}.")


def _flat(item: Row) -> Row:
    after = item["fingerprint_after"]
    same = after is not None and after == item["fingerprint"]
    told = "-" if after is None else short(after) + (", as before" if same else "")
    return {**item, "group": told, "note": helpful(item["note"]) if item["note"] else None}
