"""A stored strategy: which failures of an organization, or of one of its queues, become dead letters."""

from __future__ import annotations

from typing import NamedTuple

from redrive.model.field import Instant


class StrategyRow(NamedTuple):
    """An empty `queue` means all queues of the org that have no strategy of their own."""

    org: str
    queue: str
    strategy: str
    changed_by: str
    changed_at: Instant
    reason: str
