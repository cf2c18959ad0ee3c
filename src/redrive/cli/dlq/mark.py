"""`redrive dlq assign`, `tag` and `note`: for whoever works on dead letters together."""

from __future__ import annotations

import click

from redrive.cli.asking import dry_run_option, would
from redrive.cli.client import Client, segment
from redrive.cli.dlq.selection import PREFIX, letter_ids, letters
from redrive.cli.reach import reach_options
from redrive.cli.text import notice

_ids = click.argument("ids", nargs=-1, required=True, metavar="ID...")


@click.command()
@_ids
@click.option("--to", "name", metavar="NAME", help="Who looks after them from now on.")
@click.option("--nobody", is_flag=True, help="Nobody does any more.")
@dry_run_option
@reach_options
def assign(client: Client, ids: tuple[str, ...], name: str | None, nobody: bool, dry_run: bool) -> None:
    """Say who looks after dead letters."""
    if (name is None) != nobody:
        raise click.UsageError("Say --to NAME, or --nobody: one of them.")
    if would(f"assign {_number(ids)} to {name or 'nobody'} on {client.where}", dry_run):
        return
    with letter_ids(ids):
        client.post(f"{PREFIX}/assign", {"ids": list(ids), "name": name})
    notice(f"{_number(ids).capitalize()} {_are(ids)} assigned to {name or 'nobody'}.")


@click.command()
@_ids
@click.option("--add", multiple=True, metavar="TAG", help="A tag they get; can be repeated.")
@click.option("--remove", multiple=True, metavar="TAG", help="A tag they lose; can be repeated.")
@dry_run_option
@reach_options
def tag(
    client: Client, ids: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...], dry_run: bool
) -> None:
    """Add tags to dead letters, and remove others."""
    if not add and not remove:
        raise click.UsageError("Say which tags: --add TAG, --remove TAG.")
    if would(f"change the tags of {_number(ids)} on {client.where}", dry_run):
        return
    with letter_ids(ids):
        client.post(f"{PREFIX}/tags", {"ids": list(ids), "add": list(add), "remove": list(remove)})
    notice(f"{_number(ids).capitalize()} {_are(ids)} tagged.")


@click.command()
@click.argument("id")
@click.argument("text")
@dry_run_option
@reach_options
def note(client: Client, id: str, text: str, dry_run: bool) -> None:  # noqa: A002 - its name there
    """Write something down about a dead letter, for whoever comes next."""
    if not would(f"note it about the dead letter {id} on {client.where}", dry_run):
        with letter_ids([id]):
            client.post(f"{PREFIX}/{segment(id)}/notes", {"text": text})
        notice(f"It is noted; `redrive dlq view {id}` shows it.")


def _number(ids: tuple[str, ...]) -> str:
    return f"the dead letter {ids[0]}" if len(ids) == 1 else letters(len(ids))


def _are(ids: tuple[str, ...]) -> str:
    return "is" if len(ids) == 1 else "are"
