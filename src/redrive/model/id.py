"""Ids, which sort by time, and prefixes of them: a prefix names an object if only one id starts with it."""

from __future__ import annotations

import re
from typing import NamedTuple

from redrive.model.field import Instant

ID_LENGTH = 32
MIN_PREFIX_LENGTH = 6
"""The number of digits from which on a prefix of an id or of a fingerprint is accepted."""
SHOWN_LENGTH = 15
"""Pages show as many digits of an id: its time and its counter. Two ids of one process differ in them."""
MAX_CANDIDATES = 5

MARK_OF_ORDER = "f1f0"
"""The last digits of the id of a run with an order key."""

_PREFIX = re.compile(rf"[0-9a-f]{{{MIN_PREFIX_LENGTH},{ID_LENGTH}}}")


def is_in_order(identifier: str) -> bool:
    """Return whether a run may have an order key. Of other runs, one in 65,536 seems to have one, too."""
    return identifier.endswith(MARK_OF_ORDER)


class Candidate(NamedTuple):
    """An object whose id starts with a prefix: `what` is its task, or what else describes it."""

    id: str
    what: str
    at: Instant


def prefix_of(text: str) -> str | None:
    """Return the beginning of an id, in lowercase and without an ellipsis; None if the text cannot be one."""
    digits = text.strip().lower().removesuffix("…").removesuffix("...")
    return digits if _PREFIX.fullmatch(digits) else None


def short_id(text: str) -> str:
    """Return the beginning of an id that people can type; other text in full, if it is short."""
    return text if len(text) < ID_LENGTH else text[:SHOWN_LENGTH]


def id_range(prefix: str) -> tuple[str, str]:
    """Return the lowest and the highest id that start with this prefix."""
    return prefix.ljust(ID_LENGTH, "0"), prefix.ljust(ID_LENGTH, "f")
