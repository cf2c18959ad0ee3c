"""The overview, as answers have it."""

from __future__ import annotations

from redrive.model.overview import Span
from redrive.model.run import RunState
from redrive.server.api.shape.base import Moment, Shown
from redrive.server.api.shape.dead_letter import CountShape


class NeedsYouShape(Shown):
    """Dead letters that stay as they are until somebody does something about them."""

    open: int
    exhausted: int
    total: int


class HealsItselfShape(Shown):
    """What goes on without anybody: runs that breakers hold, runs between two attempts, dead letters that are
    replayed, and open ones that will be redriven."""

    held: CountShape
    retrying: CountShape
    replaying: int
    scheduled: int
    total: CountShape


class OldestShape(Shown):
    id: str
    title: str
    created_at: Moment
    seconds: float


class FlowShape(Shown):
    """Dead letters that were written or reopened, and those that were closed or removed."""

    came: list[int]
    left: list[int]


class ReplayRecordShape(Shown):
    """`rate` is the part that has succeeded."""

    succeeded: int
    failed: int
    rate: float | None


class OverviewShape(Shown):
    """Lists have one number for each part, of `seconds` from `start` on; the last is under way."""

    span: Span
    now: Moment
    start: Moment
    seconds: float
    needs_you: NeedsYouShape
    heals_itself: HealsItselfShape
    oldest: OldestShape | None
    dead_letters: FlowShape
    replays: ReplayRecordShape
    runs: dict[RunState, list[int]]
