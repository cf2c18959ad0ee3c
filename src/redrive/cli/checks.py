"""Checks before a change: the item exists, its state allows the change, and the operator confirms it."""

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
from redrive.model.id import ID_LENGTH, MIN_PREFIX_LENGTH
from redrive.model.transition import TransitionTable
from redrive.words.state import status
from redrive.words.suggestion import suggest

_ID = re.compile(rf"[0-9a-f]{{{ID_LENGTH}}}")
_PART_OF_AN_ID = re.compile(r"[0-9a-f]+")


def confirm(what: str, where: str = "", *, dry_run: bool, yes: bool) -> bool:
    """Ask for confirmation unless --yes was given. Return False in a dry run, after reporting the change.

    `what` starts with a verb; `where` names the database or the server.
    """
    if report_dry_run(what, dry_run, where):
        return False
    if yes:
        return True
    place = f" ({where})" if where else ""
    if not sys.stdin.isatty():
        raise click.UsageError(f"Add --yes to {what}{place}; there is no terminal to ask for confirmation.")
    if not click.confirm(escape_controls(f"{what[:1].upper()}{what[1:]}?{place}"), err=True):
        raise DeclinedError("declined; nothing was changed")
    return True


def require_reason(reason: str, what: str) -> str:
    """Return the reason; if none was given, ask for it on a terminal. `what` starts with a verb."""
    if reason.strip():
        return reason
    if not sys.stdin.isatty():
        raise click.UsageError(f"Add --reason to {what}. The audit log records it.")
    return str(click.prompt("Reason, for the audit log", err=True))


def report_dry_run(what: str, dry_run: bool, where: str = "") -> bool:
    """Report what a dry run would change. Return whether this is one."""
    if dry_run:
        notice(f"Would {what}{f' ({where})' if where else ''}.")
    return dry_run


def read_named(client: Client, path: str, kind: str, name: str) -> Row:
    """Return the item with this name from an API list. Suggest a name if it is unknown."""
    known: dict[str, Row] = {item["name"]: item for item in client.get(path)["items"]}
    if name not in known:
        raise NotFoundError(f"no {kind} is named {name!r:.200}; {suggest(name, sorted(known))}")
    return known[name]


@contextmanager
def explain_ids(kind: str, ids: Sequence[str], list_command: str) -> Iterator[None]:
    """Explain what an id looks like if an argument that can't be one isn't found."""
    try:
        yield
    except RedriveError as error:
        odd = [argument for argument in ids if not _ID.fullmatch(argument)]
        if exit_of(error) is not Exit.NOT_FOUND or not odd:
            raise
        looks_like_words = len(ids) > 1 and not _PART_OF_AN_ID.fullmatch(odd[0])
        quoted = ". Put quotes around a --reason of several words" if looks_like_words else ""
        if len(ids) == 1 and len(odd[0]) >= MIN_PREFIX_LENGTH and _PART_OF_AN_ID.fullmatch(odd[0]):
            raise NotFoundError(
                f"no {kind} has an id that starts with {odd[0]:.200}; `{list_command}` lists them"
            ) from None
        raise NotFoundError(
            f"no {kind} has the id {odd[0]!r:.200}: pass the {ID_LENGTH} digits of an id, or at least its "
            f"first {MIN_PREFIX_LENGTH}; `{list_command}` lists them{quoted}"
        ) from None


def require_state(table: TransitionTable[Any], cause: str, state: str, what: str, done: str) -> None:
    """Reject a change that the state does not allow, before asking the operator and in a dry run too.

    The server checks again and has the last word, also on states that only a newer server knows.
    """
    allowed = table.before(cause)
    known = {state for transition in table.transitions for state in (transition.before, transition.after)}
    if state in known and state not in allowed:
        raise TransitionError(
            f"{what} is {status(state)}; it can only be {done} when it is "
            f"{' or '.join(sorted(map(status, allowed)))}"
        )
