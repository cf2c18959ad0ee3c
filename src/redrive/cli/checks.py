"""Checks before a change: the thing exists, its state allows the change, and the operator confirms it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from redrive.cli.client import Client
from redrive.cli.outcome import DeclinedError, Exit, exit_of
from redrive.cli.table import Row
from redrive.cli.terminal import escape_controls, notice
from redrive.errors import NotFoundError, RedriveError, TransitionError
from redrive.model.transition import TransitionTable
from redrive.words.suggestion import suggest

_ID = re.compile(r"[0-9a-f]{32}")
_PART_OF_AN_ID = re.compile(r"[0-9a-f]+")


def confirm(what: str, *, dry_run: bool, yes: bool) -> bool:
    """Ask, unless --yes was given. False in a dry run, which only says what would be done."""
    if report_dry_run(what, dry_run):
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(f"To {what}, confirm it with --yes: there is no terminal to ask on.")
    if not click.confirm(escape_controls(f"Really {what}?"), err=True):
        raise DeclinedError("declined; nothing was changed")
    return True


def report_dry_run(what: str, dry_run: bool) -> bool:
    """Say what would be done if this is a dry run; return whether it is one."""
    if dry_run:
        notice(f"Would {what}.")
    return dry_run


def read_named(client: Client, path: str, kind: str, name: str) -> Row:
    """Return the item of this name from a list of the API; an unknown name gets a suggestion."""
    known: dict[str, Row] = {item["name"]: item for item in client.get(path)["items"]}
    if name not in known:
        raise NotFoundError(f"there is no {kind} {name!r:.200}; {suggest(name, sorted(known))}")
    return known[name]


@contextmanager
def explain_ids(kind: str, ids: Sequence[str], list_command: str) -> Iterator[None]:
    """When nothing is found for an argument that cannot be an id, say what an id looks like."""
    try:
        yield
    except RedriveError as error:
        odd = [argument for argument in ids if not _ID.fullmatch(argument)]
        if exit_of(error) is not Exit.NOT_FOUND or not odd:
            raise
        looks_like_words = len(ids) > 1 and not _PART_OF_AN_ID.fullmatch(odd[0])
        quoted = "; a --reason of several words stands in quotes" if looks_like_words else ""
        raise NotFoundError(
            f"there is no {kind} {odd[0]!r:.200}: an id has 32 digits; `{list_command}` shows them{quoted}"
        ) from None


def require_state(table: TransitionTable[Any], cause: str, state: str, what: str, done: str) -> None:
    """Refuse what the state does not allow before the operator is asked, and in a dry run too.

    The server checks again and decides, also about a state that only a newer server knows.
    """
    allowed = table.before(cause)
    known = {state for transition in table.transitions for state in (transition.before, transition.after)}
    if state in known and state not in allowed:
        raise TransitionError(
            f"{what} is {state}; only one that is {' or '.join(sorted(allowed))} can be {done}"
        )
