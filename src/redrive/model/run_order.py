"""The place of a run in the order of its key."""

from __future__ import annotations

from typing import NamedTuple

from redrive.model.query import Count
from redrive.model.run import AfterFailure

MAX_IN_ORDER = 1_000
"""How many runs before and behind a run are counted."""


class RunOrder(NamedTuple):
    """The order key of a run, and its place among the unfinished runs with this key.

    after_failure  what the later runs do if this one becomes a dead letter; None: it has left the order
    waits_for      the run that is next, or in progress, or blocked by its dead letter; None if it is this one
    before         the number of runs before this one
    behind         the number of runs after it
    """

    key: str
    after_failure: AfterFailure | None
    waits_for: str | None
    before: Count
    behind: Count
