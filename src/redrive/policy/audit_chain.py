"""The audit chain: each entry's hash covers the entry and the hash before it.

Changing, removing or moving an entry breaks the chain at that point. Removing its end or rewriting all of it
does not: only a previously exported head reveals that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from redrive.model.audit import Entry, Head
from redrive.model.fact import Fact, fact
from redrive.words.fact import text_of

_VERSION = "redrive audit 1"
MAX_SUSPECTS = 32
MAX_FAULTS = 100


class FaultKind(StrEnum):
    EDITED = "edited"
    DELETED = "deleted"
    REORDERED = "reordered"
    TRUNCATED = "truncated"
    ADDED = "added"
    FOREIGN_HEAD = "foreign head"


class ChainFault(NamedTuple):
    kind: FaultKind
    sequence: int
    fact: Fact

    @property
    def text(self) -> str:
        return text_of(self.fact)


class _Suspect(NamedTuple):
    """An entry with a wrong hash. `before` is the hash of the entry that now precedes it."""

    entry: Entry
    before: str


def chain_hash(before: str, entry: Entry) -> str:
    """Hash an entry together with the previous hash."""
    text = json.dumps([_VERSION, before, *entry[:-1]], separators=(",", ":"), default=repr)
    return sha256(text.encode()).hexdigest()


def chained(head: Head, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Number and hash new entries so that they follow the head."""
    sequence, before = head.sequence, head.hash
    for entry in entries:
        sequence += 1
        numbered = entry._replace(sequence=sequence)
        before = chain_hash(before, numbered)
        yield numbered._replace(hash=before)


class ChainCheck:
    """Checks the entries of one org, in order of their sequence.

    checked  the number of entries checked so far
    found    the number of faults found so far; `faults` lists the first ones
    """

    def __init__(self, org: str, exported: Head | None = None) -> None:
        self.faults: list[ChainFault] = []
        self.found = 0
        self.checked = 0
        self._org = org
        self._exported = exported
        self._sequence = 0
        self._hash: str | None = ""
        self._suspects: list[_Suspect] = []

    def take(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._take(entry)

    def finish(self, head: Head, last: int) -> list[ChainFault]:
        """Check the end of the chain: `head` is the stored one, `last` the last sequence that exists."""
        self._explain_suspects()
        self._check_end(head, last)
        self._check_exported(last)
        return self.faults

    def _take(self, entry: Entry) -> None:
        self.checked += 1
        if entry.sequence != self._sequence + 1:
            self._find_missing(FaultKind.DELETED, self._sequence + 1, entry.sequence - 1)
            self._hash = None
        if self._hash is not None and chain_hash(self._hash, entry) != entry.hash:
            self._suspects.append(_Suspect(entry, self._hash))
            if len(self._suspects) > MAX_SUSPECTS:
                self._explain_suspects()
        self._sequence, self._hash = entry.sequence, entry.hash
        self._compare(entry)

    def _compare(self, entry: Entry) -> None:
        exported = self._exported
        if exported is None or exported.org != self._org or entry.sequence != exported.sequence:
            return
        if entry.hash != exported.hash:
            self._find(FaultKind.FOREIGN_HEAD, entry.sequence, fact("audit_rewritten"))

    def _explain_suspects(self) -> None:
        suspects, self._suspects = self._suspects, []
        for entry, _ in suspects:
            place = _place_of(entry, suspects)
            if place is None:
                changed = fact("audit_entry_changed", sequence=entry.sequence)
                self._find(FaultKind.EDITED, entry.sequence, changed)
            elif place != entry.sequence:
                moved = fact("audit_entry_moved", sequence=entry.sequence, written_as=place)
                self._find(FaultKind.REORDERED, entry.sequence, moved)

    def _check_end(self, head: Head, last: int) -> None:
        if last < head.sequence:
            self._find_missing(FaultKind.TRUNCATED, last + 1, head.sequence)
        elif last > head.sequence:
            first = head.sequence + 1
            self._find(FaultKind.ADDED, first, fact("audit_entries_added", first=first, last=last))
        elif self._sequence == last and (self._hash or "") != head.hash:
            self._find(FaultKind.EDITED, last, fact("audit_end_changed", sequence=last))

    def _check_exported(self, last: int) -> None:
        exported = self._exported
        if exported is None:
            return
        if exported.org != self._org:
            other = fact("audit_head_of_other_org", head_org=exported.org, org=self._org)
            self._find(FaultKind.FOREIGN_HEAD, exported.sequence, other)
        elif exported.sequence > last:
            self._find_missing(FaultKind.TRUNCATED, last + 1, exported.sequence)
        elif exported.sequence < 1 and exported.hash:
            self._find(FaultKind.FOREIGN_HEAD, exported.sequence, fact("audit_rewritten"))

    def _find_missing(self, kind: FaultKind, first: int, last: int) -> None:
        self._find(kind, first, fact("audit_entries_missing", first=first, last=last))

    def _find(self, kind: FaultKind, sequence: int, found: Fact) -> None:
        self.found += 1
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(ChainFault(kind, sequence, found))


def _place_of(entry: Entry, suspects: list[_Suspect]) -> int | None:
    """Find the place where the entry fits the chain, among the places and hashes of all suspects."""
    hashes = {suspect.entry.hash for suspect in suspects}
    befores = hashes | {suspect.before for suspect in suspects}
    for place in sorted({suspect.entry.sequence for suspect in suspects}):
        moved = entry._replace(sequence=place)
        if any(chain_hash(before, moved) in hashes for before in befores):
            return place
    return None
