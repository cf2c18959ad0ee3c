"""What somebody may have meant who has named what is not there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from redrive.errors import NotFoundError


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
