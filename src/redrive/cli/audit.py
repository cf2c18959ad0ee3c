"""`redrive audit`: list the audit log and verify its chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from redrive.cli.client import Client
from redrive.cli.commands import CommandGroup
from redrive.cli.connection import api_options
from redrive.cli.options import MomentParam, limit_option, output_option
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.output import NewestRows, chosen, show_one, show_rows
from redrive.cli.table import Row, TableColumn, stamp
from redrive.cli.terminal import notice, out
from redrive.model.audit import Action
from redrive.words.audit import describe_detail, describe_fold, fold_entries
from redrive.words.number import plural

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

PATH = "/api/v1/audit"
FIELDS = ("sound", "checked", "found", "head")


def _detail(detail: Row) -> str:
    """Format the detail of an entry, reason first."""
    pairs = sorted(detail.items(), key=lambda item: item[0] != "reason")
    texts = (describe_detail(name, value) for name, value in pairs if value not in (None, "", [], {}))
    return ", ".join(f"{name}: {text}" for name, text in texts) or "-"


COLUMNS = (
    TableColumn("sequence", "#"),
    TableColumn("at", short=stamp, whole=True),
    "actor",
    TableColumn("action", whole=True),
    "subjects",
    TableColumn("detail", short=_detail),
)


TABLE = (
    TableColumn("sequence", "#"),
    TableColumn("at", short=stamp, whole=True),
    "actor",
    TableColumn("text", "what", whole=True),
    "subjects",
    TableColumn("detail", short=_detail),
)
"""A table is for people: it has a sentence in place of the action, and one line for each bulk replay."""
FOLDED_TOGETHER = 500


class _Entry(NamedTuple):
    actor: str
    action: str
    subjects: Sequence[str]
    detail: Row
    row: Row


def _folded(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield a row for each entry, and one for all entries of a bulk replay."""
    while part := list(islice(rows, FOLDED_TOGETHER)):
        entries = [_Entry(row["actor"], row["action"], row["subjects"], row["detail"], row) for row in part]
        for fold, operation in fold_entries(entries, len(entries))[0]:
            line = describe_fold(fold, operation)
            row = fold.first.row | {"actor": line.actor, "text": line.text}
            if operation is not None:
                text = f"{line.text} ({plural(fold.number, 'entry', 'entries')})"
                row |= {"text": text, "subjects": [operation], "detail": fold.rows[-1].detail}
            yield row


@click.group(cls=CommandGroup)
def audit() -> None:
    """List the audit log and verify that it is intact."""


@audit.command("list")
@click.option(
    "--action",
    type=click.Choice(list(map(str, Action))),
    metavar="ACTION",
    help="Only this action, such as queue.paused.",
)
@click.option("--actor", metavar="NAME", help="Only actions of this person or key.")
@click.option("--subject", metavar="ID", help="Only actions on this id or name.")
@click.option(
    "--since", type=MomentParam(), metavar="TIME", help="Start: 2h (ago), 2030-01-31, or an RFC 3339 time."
)
@click.option("--until", type=MomentParam(), metavar="TIME", help="End, in the same forms.")
@limit_option
@output_option
@api_options
def list_entries(
    client: Client,
    action: str | None,
    actor: str | None,
    subject: str | None,
    since: str | None,
    until: str | None,
    limit: int | None,
    output: str | None,
) -> None:
    """List audit entries, newest first.

    A table has a sentence for each entry, and one line for all entries of a bulk replay. The other formats
    have every entry, with the name of its action.
    """
    query: dict[str, Any] = {
        "action": action,
        "actor": actor,
        "subject": subject,
        "since": since,
        "until": until,
    }
    if chosen(output) == "table":
        rows = NewestRows(_folded(client.pages(PATH, **query)), limit)
        columns: Sequence[str | TableColumn] = TABLE
    else:
        rows, columns = NewestRows.read(client, PATH, limit, **query), COLUMNS
    show_rows(rows, columns, output, empty="No matching audit entries.")
    rows.mention_rest()


@audit.command()
@click.option(
    "--head", metavar="TEXT", help="A head that you saved earlier; the chain must still contain it."
)
@output_option
@api_options
def verify(client: Client, head: str | None, output: str | None) -> None:
    """Verify that no audit entry was changed, removed or inserted.

    Reads the whole chain and exits with 7 if it is broken. Save the head that is printed outside the database
    and pass it as --head later: that also detects a chain that was rewritten as a whole.
    """
    length = client.get(f"{PATH}/head")["sequence"]
    notice(f"Checking {plural(length, 'entry', 'entries')} …")
    found = client.post(f"{PATH}/verify", {"head": head} if head else None)
    flat = {**found, "head": found["head"]["text"]}
    show_one(found, FIELDS, output, lambda screen: _draw(screen, found), flat=lambda _: flat)
    if not found["sound"]:
        raise CommandExit(Exit.FAILURES)


def _draw(screen: Screen, found: Row) -> None:
    out(("The audit log is intact.", "good") if found["sound"] else ("The audit log is broken.", "bad"))
    for fault in found["faults"]:
        screen.paragraph(f"#{fault['sequence']}  {fault['kind']}: {fault['text']}")
    if found["found"] > len(found["faults"]):
        screen.paragraph(f"and {plural(found['found'] - len(found['faults']), 'more fault')}")
    out(f"Checked {plural(found['checked'], 'entry', 'entries')}. Save this head elsewhere, for --head:")
    out(found["head"]["text"])  # on one line, to be copied
