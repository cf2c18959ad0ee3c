"""`redrive dlq resolve`, `ignore`, `archive`, `reopen`: one, several, or all that fulfil a query."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from redrive.cli.asking import agreed, dry_run_option, reason_option, yes_option
from redrive.cli.client import Client, segment
from redrive.cli.dlq.selection import (
    PREFIX,
    Selection,
    ids_by_query,
    letter_ids,
    letters_are,
    selected,
    selection_options,
)
from redrive.cli.reach import reach_options
from redrive.cli.standing import require_standing
from redrive.cli.text import notice, out
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS

MAX_SHOWN = 20
"""Ids that a terminal is shown; a program gets all of them."""

DONE = {"resolve": "resolved", "ignore": "ignored", "archive": "archived", "reopen": "reopened"}
CAUSES = {**DONE, "resolve": "resolved by a person", "ignore": "ignored by a person"}


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (reach_options, yes_option, dry_run_option, reason_option, selection_options):
        function = option(function)
    return function


@click.command()
@_options
def resolve(client: Client, **given: Any) -> None:
    """Close dead letters: they are done with.

    Their work is not executed again. IDS are their ids, or - to read them from the standard input.
    """
    _change(client, "resolve", **given)


@click.command()
@_options
def ignore(client: Client, **given: Any) -> None:
    """Close dead letters: nothing will be done about them."""
    _change(client, "ignore", **given)


@click.command()
@_options
def archive(client: Client, **given: Any) -> None:
    """Close dead letters: they are put away."""
    _change(client, "archive", **given)


@click.command()
@_options
def reopen(client: Client, **given: Any) -> None:
    """Undo closing dead letters, unless their work has gone on since."""
    _change(client, "reopen", **given)


def _change(client: Client, verb: str, *, reason: str, dry_run: bool, yes: bool, **given: Any) -> None:
    selection = selected(client, **given, only_look=dry_run)
    if selection.state is not None:
        what = f"the dead letter {selection.ids[0]}"
        require_standing(DEAD_LETTER_TRANSITIONS, CAUSES[verb], selection.state, what, DONE[verb])
    if selection.number == 0:
        notice(f"No dead letters fulfil the query {selection.query!r}; nothing was changed.")
    elif agreed(f"{verb} {selection.named} on {client.where}", dry_run=dry_run, yes=yes):
        _do(client, verb, selection, reason)


def _do(client: Client, verb: str, selection: Selection, reason: str) -> None:
    path = f"{PREFIX}/{verb}"
    if selection.version is not None:
        one = f"{PREFIX}/{segment(selection.ids[0])}/{verb}"
        letter = client.post(one, {"reason": reason}, if_match=selection.version)
        notice(f"The dead letter {letter['id']} is {letter['state'].lower()}.")
    elif selection.query is None:
        with letter_ids(selection.ids):
            client.post(path, {"ids": list(selection.ids), "reason": reason})
        notice(f"{letters_are(selection.number)} {DONE[verb]}.")
    elif verb == "reopen":
        ids = ids_by_query(client, selection.query, selection.number)
        client.post(path, {"ids": ids, "reason": reason})
        notice(f"{letters_are(len(ids))} reopened.")
    else:
        body = {"query": selection.query, "expect": selection.number, "reason": reason}
        _tell_undo(client.post(path, body)["ids"], DONE[verb])


def _tell_undo(ids: list[str], done: str) -> None:
    """Only who has their ids can undo just this."""
    notice(f"{letters_are(len(ids))} {done}.")
    if sys.stdout.isatty() and len(ids) > MAX_SHOWN:
        notice("To undo just this, give their ids to `redrive dlq reopen -`: `redrive audit list` has them.")
        return
    for each in ids:
        out(each)
    notice("To undo just this, give these ids to `redrive dlq reopen`.")
