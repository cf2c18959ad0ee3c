"""`redrive audit`: what was done, by whom, and whether the record of it is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from redrive.cli.client import Client
from redrive.cli.commands import CommandGroup
from redrive.cli.connection import api_options
from redrive.cli.options import MomentParam, limit_option, output_option
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import NewestRows, show_one, show_rows
from redrive.cli.table import Row, TableColumn, stamp
from redrive.cli.terminal import notice, out
from redrive.model.audit import Action
from redrive.words.number import plural

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

PATH = "/api/v1/audit"
FIELDS = ("sound", "checked", "found", "head")


def _detail(detail: Row) -> str:
    """The reason first."""
    pairs = sorted(detail.items(), key=lambda item: item[0] != "reason")
    return ", ".join(f"{name}={value}" for name, value in pairs if value not in ("", None)) or "-"


COLUMNS = (
    TableColumn("sequence", "#"),
    TableColumn("at", short=stamp, whole=True),
    "actor",
    TableColumn("action", whole=True),
    "subjects",
    TableColumn("detail", short=_detail),
)


@click.group(cls=CommandGroup)
def audit() -> None:
    """The audit: list what was done and by whom, verify that the record is whole."""


@audit.command("list")
@click.option(
    "--action", type=click.Choice(list(map(str, Action))), metavar="ACTION", help="Such as queue.paused."
)
@click.option("--actor", metavar="NAME", help="Who has done it.")
@click.option("--subject", metavar="ID", help="What it was done to: an id or a name.")
@click.option("--since", type=MomentParam(), metavar="WHEN", help="From then on: 2h, 2030-01-31, or a time.")
@click.option("--until", type=MomentParam(), metavar="WHEN", help="Until then.")
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
    """List what was done, the newest first."""
    rows = NewestRows(
        client, PATH, limit, action=action, actor=actor, subject=subject, since=since, until=until
    )
    show_rows(rows, COLUMNS, output, empty="The audit has no such entries.")
    rows.mention_rest()


@audit.command()
@click.option("--head", metavar="TEXT", help="A head that was kept elsewhere: the chain must still hold it.")
@output_option
@api_options
def verify(client: Client, head: str | None, output: str | None) -> None:
    """Read the whole chain, and tell whether anything in it was changed, cut out or put in.

    Exits with 7 if it is broken. Keep the head that is shown elsewhere, and give it with --head later:
    then also a chain that was rewritten as a whole is found out.
    """
    length = client.get(f"{PATH}/head")["sequence"]
    notice(f"Reading {plural(length, 'entry', 'entries')} …")
    found = client.post(f"{PATH}/verify", {"head": head} if head else None)
    flat = {**found, "head": found["head"]["text"]}
    show_one(found, FIELDS, output, lambda screen: _draw(screen, found), flat=lambda _: flat)
    if not found["sound"]:
        raise Ended(Exit.FAILURES)


def _draw(screen: Screen, found: Row) -> None:
    out(("The audit is whole.", "good") if found["sound"] else ("The audit is broken.", "bad"))
    for fault in found["faults"]:
        screen.paragraph(f"#{fault['sequence']}  {fault['kind']}: {fault['text']}")
    if found["found"] > len(found["faults"]):
        screen.paragraph(f"and {plural(found['found'] - len(found['faults']), 'more fault')}")
    out(f"{plural(found['checked'], 'entry', 'entries')}; keep the head elsewhere, for --head:")
    out(found["head"]["text"])  # on one line, to be copied
