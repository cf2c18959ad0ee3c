"""Changes to dead letters: close, reopen, assign, tag, note, and clear a stand-alone queue."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from redrive.cli.checks import confirm, report_dry_run, require_state
from redrive.cli.client import Client, segment
from redrive.cli.connection import api_options
from redrive.cli.dlq.selection import (
    PATH,
    LetterChoice,
    explain_letter_ids,
    letters,
    letters_are,
    read_ids,
    select,
    selection_options,
)
from redrive.cli.options import add_options, dry_run_option, ids_argument, reason_option, yes_option
from redrive.cli.terminal import notice, out
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS
from redrive.words.number import noun

MAX_SHOWN = 20
"""Ids that a terminal is shown; a program gets all of them."""

DONE = {"resolve": "resolved", "ignore": "ignored", "archive": "archived", "reopen": "reopened"}
CAUSES = {**DONE, "resolve": "resolved by a person", "ignore": "ignored by a person"}


_change_options = add_options(selection_options, reason_option, dry_run_option, yes_option, api_options)


@click.command()
@_change_options
def resolve(client: Client, **given: Any) -> None:
    """Close dead letters: they are done with.

    Their work is not executed again. IDS are their ids, or - to read them from the standard input.
    """
    _change(client, "resolve", **given)


@click.command()
@_change_options
def ignore(client: Client, **given: Any) -> None:
    """Close dead letters: nothing will be done about them."""
    _change(client, "ignore", **given)


@click.command()
@_change_options
def archive(client: Client, **given: Any) -> None:
    """Close dead letters: they are put away."""
    _change(client, "archive", **given)


@click.command()
@_change_options
def reopen(client: Client, **given: Any) -> None:
    """Undo closing dead letters, unless their work has gone on since."""
    _change(client, "reopen", **given)


@click.command()
@ids_argument
@click.option("--to", "name", metavar="NAME", help="Who looks after them from now on.")
@click.option("--nobody", is_flag=True, help="Nobody does any more.")
@dry_run_option
@api_options
def assign(client: Client, ids: tuple[str, ...], name: str | None, nobody: bool, dry_run: bool) -> None:
    """Say who looks after dead letters."""
    if (name is None) != nobody:
        raise click.UsageError("Say --to NAME, or --nobody: one of them.")
    if report_dry_run(f"assign {_describe(ids)} to {name or 'nobody'} on {client.where}", dry_run):
        return
    with explain_letter_ids(ids):
        client.post(f"{PATH}/assign", {"ids": list(ids), "name": name})
    notice(f"{_describe(ids).capitalize()} {noun(len(ids), 'is', 'are')} assigned to {name or 'nobody'}.")


@click.command()
@ids_argument
@click.option("--add", multiple=True, metavar="TAG", help="A tag they get; can be repeated.")
@click.option("--remove", multiple=True, metavar="TAG", help="A tag they lose; can be repeated.")
@dry_run_option
@api_options
def tag(
    client: Client, ids: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...], dry_run: bool
) -> None:
    """Add tags to dead letters, and remove others."""
    if not add and not remove:
        raise click.UsageError("Say which tags: --add TAG, --remove TAG.")
    if report_dry_run(f"change the tags of {_describe(ids)} on {client.where}", dry_run):
        return
    with explain_letter_ids(ids):
        client.post(f"{PATH}/tags", {"ids": list(ids), "add": list(add), "remove": list(remove)})
    notice(f"{_describe(ids).capitalize()} {noun(len(ids), 'is', 'are')} tagged.")


@click.command()
@click.argument("letter_id", metavar="ID")
@click.argument("text")
@dry_run_option
@api_options
def note(client: Client, letter_id: str, text: str, dry_run: bool) -> None:
    """Write something down about a dead letter, for whoever comes next."""
    if not report_dry_run(f"note it about the dead letter {letter_id} on {client.where}", dry_run):
        with explain_letter_ids([letter_id]):
            client.post(f"{PATH}/{segment(letter_id)}/notes", {"text": text})
        notice(f"It is noted; `redrive dlq view {letter_id}` shows it.")


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
@api_options
def clear(client: Client, queue: str, expect: int, dry_run: bool, yes: bool) -> None:
    """Remove all dead letters of a stand-alone queue, for ever.

    QUEUE is the name of a DeadLetterQueue, such as dlq:default. Dead letters of runs cannot be removed: they
    are part of the history of these runs; close them.
    """
    full = queue if queue.startswith("dlq:") else f"dlq:{queue}"
    what = f"remove the {letters(expect)} of {full} for ever, on {client.where}"
    if confirm(what, dry_run=dry_run, yes=yes):
        body = {"queue": full, "expect": expect, "confirm": "clear"}
        removed = client.post(f"{PATH}/clear", body)["changed"]
        notice(f"Of {full}, {letters_are(removed)} removed.")


def _change(client: Client, verb: str, *, reason: str, dry_run: bool, yes: bool, **given: Any) -> None:
    selection = select(client, **given, look_up=dry_run)
    if selection.state is not None:
        what = f"the dead letter {selection.ids[0]}"
        require_state(DEAD_LETTER_TRANSITIONS, CAUSES[verb], selection.state, what, DONE[verb])
    if selection.number == 0:
        notice(f"No dead letters fulfil the query {selection.query!r}; nothing was changed.")
    elif confirm(f"{verb} {selection.description} on {client.where}", dry_run=dry_run, yes=yes):
        _post(client, verb, selection, reason)


def _post(client: Client, verb: str, selection: LetterChoice, reason: str) -> None:
    path = f"{PATH}/{verb}"
    if selection.version is not None:
        one = f"{PATH}/{segment(selection.ids[0])}/{verb}"
        letter = client.post(one, {"reason": reason}, if_match=selection.version)
        notice(f"The dead letter {letter['id']} is {letter['state'].lower()}.")
    elif selection.query is None:
        with explain_letter_ids(selection.ids):
            client.post(path, {"ids": list(selection.ids), "reason": reason})
        notice(f"{letters_are(selection.number)} {DONE[verb]}.")
    elif verb == "reopen":
        ids = read_ids(client, selection.query, selection.number)
        client.post(path, {"ids": ids, "reason": reason})
        notice(f"{letters_are(len(ids))} reopened.")
    else:
        body = {"query": selection.query, "expect": selection.number, "reason": reason}
        ids = client.post(path, body)["ids"]
        notice(f"{letters_are(len(ids))} {DONE[verb]}.")
        _explain_undo(ids)


def _explain_undo(ids: list[str]) -> None:
    """Show the ids: the operator needs them to undo just this change."""
    if sys.stdout.isatty() and len(ids) > MAX_SHOWN:
        notice("To undo just this, give their ids to `redrive dlq reopen -`: `redrive audit list` has them.")
        return
    for letter_id in ids:
        out(letter_id)
    notice("To undo just this, give these ids to `redrive dlq reopen`.")


def _describe(ids: Sequence[str]) -> str:
    return f"the dead letter {ids[0]}" if len(ids) == 1 else letters(len(ids))
