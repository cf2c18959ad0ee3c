"""Look up what a person means by the beginning of an id, as in git."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from redrive.errors import AmbiguousIdError
from redrive.model.id import ID_LENGTH, MAX_CANDIDATES, Candidate, prefix_of
from redrive.store.ids import IdKind as IdKind
from redrive.store.store import Store
from redrive.words.time import absolute


class IdLookup:
    """Finds ids in one organization."""

    def __init__(self, store: Store, org: str) -> None:
        self._store = store
        self._org = org

    async def find(self, kind: IdKind, text: str) -> str | None:
        """Return the only id that starts with this text; None if no id does.

        Raises AmbiguousIdError, which lists candidates, if several ids do.
        """
        prefix = prefix_of(text)
        if prefix is None:
            return None
        found = await self._store.ids.starting_with(kind, prefix, self._org, MAX_CANDIDATES + 1)
        return the_only(kind, prefix, found)

    async def complete(self, kind: IdKind, text: str) -> str:
        """Complete a prefix. Return other text unchanged: reading the object then reports it as missing."""
        if len(text) == ID_LENGTH:
            return text
        return await self.find(kind, text) or text

    async def complete_letters(self, texts: Sequence[str]) -> list[str]:
        return [await self.complete(IdKind.DEAD_LETTER, text) for text in texts]


def the_only(kind: str, prefix: str, found: Sequence[Candidate]) -> str | None:
    """Return the id of the only candidate, or None if there is none."""
    if len(found) <= 1:
        return found[0].id if found else None
    shown = "; ".join(
        f"{candidate.id} ({candidate.what}, {absolute(candidate.at, UTC)})"
        for candidate in found[:MAX_CANDIDATES]
    )
    number, more = (
        (f"more than {MAX_CANDIDATES}", "; …") if len(found) > MAX_CANDIDATES else (str(len(found)), "")
    )
    raise AmbiguousIdError(
        f"{number} {kind}s start with {prefix!r}; type more digits: {shown}{more}",
        candidates=found[:MAX_CANDIDATES],
    )
