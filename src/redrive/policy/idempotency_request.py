"""What a request that came with an idempotency key is told, and which answers are kept for it (G6)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from redrive.errors import InvalidKeyError
from redrive.model.idempotency import KeyState, KeyStatus, Standing
from redrive.policy.idempotency import MAX_KEY_LENGTH

MIN_RETRY_AFTER_SECONDS = 1.0

_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_PLAIN = re.compile(r"[!#-+\--:<-\[\]-~]*")
_ESCAPED = re.compile(r"\\(.)")

_PASSING = frozenset({401, 403, 408, 409, 425, 429})
"""The same request may be answered otherwise a moment later, or with other credentials."""


def standing(state: KeyState, request_hash: str) -> Standing:
    """A key that was left behind by a crash is free for the same request only: it may have been executed."""
    if state.time_left <= 0.0 and not state.is_held:
        return Standing.FREE
    if state.request_hash != request_hash:
        return Standing.REUSED
    if state.status is KeyStatus.PROCESSING:
        return Standing.IN_PROGRESS if state.is_held else Standing.FREE
    return Standing.COMPLETED if state.status is KeyStatus.COMPLETED else Standing.FAILED


def retry_after(state: KeyState) -> float:
    """As long again as it has taken so far; but not longer than until the key is free, should nobody be
    working on it any more."""
    return max(MIN_RETRY_AFTER_SECONDS, min(state.age, state.lease_left))


def checked_key(key: object) -> str:
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise InvalidKeyError(
            f"an idempotency key must have 1 to {MAX_KEY_LENGTH} printable characters, got {key!r:.300}"
        )
    return key


def key_in_header(values: Sequence[str]) -> str:
    """The key that the values of the header hold: a string in quotes, as structured fields have them, or the
    bare text, where it has no blanks, quotes, backslashes, commas and semicolons."""
    if len(values) != 1:
        raise InvalidKeyError("there are several Idempotency-Key headers; send one")
    text = values[0].strip(" ")
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return checked_key(_ESCAPED.sub(r"\1", quoted[1]))
    if not _PLAIN.fullmatch(text):
        raise InvalidKeyError(
            "the header Idempotency-Key must hold one text in double quotes, of printable ASCII characters"
        )
    return checked_key(text)


def is_kept(status: int) -> bool:
    """Is an answer of this status given again, rather than the request executed again?"""
    return status < 500 and status not in _PASSING
