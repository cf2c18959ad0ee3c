"""Checks before a change: does the named thing exist, and does its state allow the change?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redrive.cli.outcome import Exit, exit_of
from redrive.errors import NotFoundError, RedriveError, TransitionError
from redrive.model.transition import TransitionTable
from redrive.words.suggestion import suggest

_ID = re.compile(r"[0-9a-f]{32}")
_PART_OF_AN_ID = re.compile(r"[0-9a-f]+")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    """An error that suggests the nearest known name, or lists some."""
    return NotFoundError(f"there is no {kind} {name!r:.200}; {suggest(name, sorted(known))}")


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
    """Refuse, before anybody is asked and in a dry run too, what the state does not allow.

    The server checks again and decides, also about a state that only a newer server knows.
    """
    allowed = table.before(cause)
    known = {state for transition in table.transitions for state in (transition.before, transition.after)}
    if state in known and state not in allowed:
        raise TransitionError(
            f"{what} is {state}; only one that is {' or '.join(sorted(allowed))} can be {done}"
        )
