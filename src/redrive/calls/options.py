"""Options given by keyword: an unknown one is refused with the known ones and the likeliest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def refuse_unknown(options: Mapping[str, object], known: type) -> None:
    """`known` is the TypedDict that describes the options."""
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"unknown option {name!r}{_suggestion(name, known.__annotations__)}")


def _suggestion(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # only for somebody who has made a mistake

    close = get_close_matches(name, known, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{meant} known are: {', '.join(known)}"
