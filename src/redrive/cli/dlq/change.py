"""Change dead letters: close, reopen, assign, tag, note, and clear a stand-alone queue."""

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
    read_ids,
    select,
    selection_options,
)
from redrive.cli.options import (
    NumberParam,
    add_options,
    dry_run_option,
    ids_argument,
    reason_option,
    yes_option,
)
from redrive.cli.terminal import notice, out
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS

MAX_SHOWN = 20
"""Maximum number of ids to print on a terminal; a program gets all of them."""

DONE = {"resolve": "resolved", "ignore": "ignored", "archive": "archived", "reopen": "reopened"}
CAUSES = {**DONE, "resolve": "resolved by a person", "ignore": "ignored by a person"}


_change_options = add_options(selection_options, reason_option, dry_run_option, yes_option, api_options)


@click.command()
@_change_options
def resolve(client: Client, **given: Any) -> None:
    """Resolve dead letters: the work was done some other way.

    The work is not executed again. Pass ids, or - to read them from stdin.
    """
    _change(client, "resolve", **given)


@click.command()
@_change_options
def ignore(client: Client, **given: Any) -> None:
    """Ignore dead letters: the work will not be done."""
    _change(client, "ignore", **given)


@click.command()
@_change_options
def archive(client: Client, **given: Any) -> None:
    """Archive dead letters: close them without a decision."""
    _change(client, "archive", **given)


@click.command()
@_change_options
def reopen(client: Client, **given: Any) -> None:
    """Reopen closed dead letters, unless their run has continued since."""
    _change(client, "reopen", **given)


@click.command()
@ids_argument
@click.option("--to", "name", metavar="NAME", help="Person to assign.")
@click.option("--clear", "clear_assignee", is_flag=True, help="Clear the assignee.")
@dry_run_option
@api_options
def assign(
    client: Client, ids: tuple[str, ...], name: str | None, clear_assignee: bool, dry_run: bool
) -> None:
    """Assign dead letters to a person, or clear the assignee."""
    if (name is None) != clear_assignee:
        raise click.UsageError("Pass either --to NAME or --clear.")
    dead_letters = _describe(ids)
    change = f"unassign {dead_letters}" if name is None else f"assign {dead_letters} to {name}"
    if report_dry_run(change, dry_run, client.where):
        return
    with explain_letter_ids(ids):
        client.post(f"{PATH}/assign", {"ids": list(ids), "name": name})
    notice(f"Unassigned {dead_letters}." if name is None else f"Assigned {dead_letters} to {name}.")


@click.command()
@ids_argument
@click.option("--add", multiple=True, metavar="TAG", help="Add this tag; repeatable.")
@click.option("--remove", multiple=True, metavar="TAG", help="Remove this tag; repeatable.")
@dry_run_option
@api_options
def tag(
    client: Client, ids: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...], dry_run: bool
) -> None:
    """Add and remove tags of dead letters."""
    if not add and not remove:
        raise click.UsageError("Pass --add TAG or --remove TAG.")
    if report_dry_run(f"change the tags of {_describe(ids)}", dry_run, client.where):
        return
    with explain_letter_ids(ids):
        client.post(f"{PATH}/tags", {"ids": list(ids), "add": list(add), "remove": list(remove)})
    notice(f"Changed the tags of {_describe(ids)}.")


@click.command()
@click.argument("letter_id", metavar="ID")
@click.argument("text")
@dry_run_option
@api_options
def note(client: Client, letter_id: str, text: str, dry_run: bool) -> None:
    """Add a note to a dead letter."""
    if not report_dry_run(f"add a note to dead letter {letter_id}", dry_run, client.where):
        with explain_letter_ids([letter_id]):
            client.post(f"{PATH}/{segment(letter_id)}/notes", {"text": text})
        notice(f"Added a note. See it with `redrive dlq view {letter_id}`.")


@click.command()
@click.argument("queue", metavar="QUEUE")
@click.option(
    "--expect",
    type=NumberParam(0, 1_000_000),
    required=True,
    metavar="N",
    help="Remove nothing unless the queue has exactly N dead letters.",
)
@dry_run_option
@yes_option
@api_options
def clear(client: Client, queue: str, expect: int, dry_run: bool, yes: bool) -> None:
    """Delete all dead letters of a stand-alone queue, permanently.

    QUEUE is the name of a DeadLetterQueue, such as dlq:default. Dead letters of runs can't be deleted: they
    are part of the history of the run. Close them instead.
    """
    full = queue if queue.startswith("dlq:") else f"dlq:{queue}"
    what = f"permanently delete {letters(expect)} of {full}"
    if confirm(what, client.where, dry_run=dry_run, yes=yes):
        body = {"queue": full, "expect": expect, "confirm": "clear"}
        removed = client.post(f"{PATH}/clear", body)["changed"]
        notice(f"Deleted {letters(removed)} of {full}.")


def _change(client: Client, verb: str, *, reason: str, dry_run: bool, yes: bool, **given: Any) -> None:
    selection = select(client, **given, look_up=dry_run)
    if selection.state is not None:
        what = f"dead letter {selection.ids[0]}"
        require_state(DEAD_LETTER_TRANSITIONS, CAUSES[verb], selection.state, what, DONE[verb])
    if selection.number == 0:
        notice(f"No dead letters match {selection.query!r}. Nothing was changed.")
    elif confirm(f"{verb} {selection.description}", client.where, dry_run=dry_run, yes=yes):
        _post(client, verb, selection, reason)


def _post(client: Client, verb: str, selection: LetterChoice, reason: str) -> None:
    path = f"{PATH}/{verb}"
    if selection.version is not None:
        one = f"{PATH}/{segment(selection.ids[0])}/{verb}"
        letter = client.post(one, {"reason": reason}, if_match=selection.version)
        notice(f"{DONE[verb].capitalize()} dead letter {letter['id']}.")
    elif selection.query is None:
        with explain_letter_ids(selection.ids):
            client.post(path, {"ids": list(selection.ids), "reason": reason})
        notice(f"{DONE[verb].capitalize()} {letters(selection.number)}.")
    elif verb == "reopen":
        ids = read_ids(client, selection.query, selection.number)
        client.post(path, {"ids": ids, "reason": reason})
        notice(f"Reopened {letters(len(ids))}.")
    else:
        body = {"query": selection.query, "expect": selection.number, "reason": reason}
        ids = client.post(path, body)["ids"]
        notice(f"{DONE[verb].capitalize()} {letters(len(ids))}.")
        _explain_undo(ids)


def _explain_undo(ids: list[str]) -> None:
    """Print the ids, which the operator needs to undo just this change."""
    if sys.stdout.isatty() and len(ids) > MAX_SHOWN:
        notice("To undo this, pass the ids from `redrive audit list` to `redrive dlq reopen -`.")
        return
    for letter_id in ids:
        out(letter_id)
    notice("To undo this, pass these ids to `redrive dlq reopen`.")


def _describe(ids: Sequence[str]) -> str:
    return f"dead letter {ids[0]}" if len(ids) == 1 else letters(len(ids))
