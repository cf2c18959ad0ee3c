"""What somebody may have meant who has named what is not there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from redrive.cli.outcome import Exit, exit_of
from redrive.errors import NotFoundError, RedriveError

_ID = re.compile(r"[0-9a-f]{32}")
_PART = re.compile(r"[0-9a-f]+")


def not_there(kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    if near:
        meant = f"did you mean {near[0]!r}?"
    elif names:
        meant = f"there is {', '.join(map(repr, names[:5]))}" + (" …" if len(names) > 5 else "")
    else:
        meant = "there is none at all"
    return NotFoundError(f"there is no {kind} {name!r:.200}; {meant}")


@contextmanager
def ids_of(kind: str, ids: Sequence[str], listed: str) -> Iterator[None]:
    """What is not found because it can be no id is told with what an id looks like, and where they are."""
    try:
        yield
    except RedriveError as error:
        odd = [each for each in ids if not _ID.fullmatch(each)]
        if exit_of(error) is not Exit.NOT_FOUND or not odd:
            raise
        quoted = "; a --reason of several words stands in quotes" if _are_words(ids, odd[0]) else ""
        raise NotFoundError(
            f"there is no {kind} {odd[0]!r:.200}: an id has 32 digits; `{listed}` shows them{quoted}"
        ) from None


def _are_words(ids: Sequence[str], odd: str) -> bool:
    return len(ids) > 1 and not _PART.fullmatch(odd)
