"""Queues, breakers, workers and settings, as requests and answers have them: all organizations share them.

What somebody has said of them, and where they run, is shown in the organization that owns the installation.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from redrive.model.breaker import BreakerState
from redrive.policy.bounds import MAX_DELAY_SECONDS
from redrive.policy.user_text import MAX_REASON_LENGTH
from redrive.server.api.shape.base import Asked, Moment, Shown
from redrive.server.api.shape.dead_letter import CountShape


class DepthsShape(Shown):
    """How much lies where, counted up to 10,000 each."""

    ready: CountShape
    waiting: CountShape
    held: CountShape
    executing: CountShape
    oldest_ready_seconds: float | None


class QueueShape(Shown):
    """`own` is what the organization has in it; `overall`, what all have."""

    name: str
    paused: bool
    paused_at: Moment | None
    paused_by: str | None
    reason: str | None
    own: DepthsShape
    overall: DepthsShape | None


class QueueList(Shown):
    items: list[QueueShape]
    next_cursor: str | None


class WorkerShape(Shown):
    """One that is silent for several times 10 s is dead, whatever its state says."""

    id: str
    state: str
    started_at: Moment
    seen_at: Moment
    seconds_silent: float
    code_version: str
    queues: list[str]
    concurrency: int
    in_flight: int
    host: str | None
    process: int | None


class WorkerList(Shown):
    items: list[WorkerShape]
    next_cursor: str | None


class ForceShape(Shown):
    """A person's word: it stays so until then, or until they take it back."""

    state: BreakerState
    until: Moment | None
    reason: str | None
    by: str | None


class PolicyShape(Shown):
    """When it opens, for how long, and how it closes again; times in seconds."""

    window_calls: int | None
    window_seconds: float | None
    minimum_calls: int
    failure_rate: float
    slow_seconds: float | None
    slow_rate: float
    cool_down: float
    longest_open: float
    probe_slots: int
    probe_seconds: float
    successes_to_close: int


class BreakerShape(Shown):
    """From `open_until` on it is probed. `waiting` is how much of the organization's work it holds."""

    name: str
    state: BreakerState
    calls: int
    failures: int
    slow_calls: int
    opened_at: Moment | None
    open_until: Moment | None
    probes_under_way: int
    probe_successes: int
    force: ForceShape | None
    waiting: CountShape
    policy: PolicyShape


class BreakerList(Shown):
    items: list[BreakerShape]
    next_cursor: str | None


class Forcing(Asked):
    """For so many seconds, or until it is released."""

    state: Literal["OPEN", "CLOSED"]
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_LENGTH)]
    seconds: Annotated[float | None, Field(ge=1, le=MAX_DELAY_SECONDS, allow_inf_nan=False)] = None


class SettingShape(Shown):
    """`origin` is where its value comes from. Secrets are masked."""

    name: str
    value: Any
    origin: str
    default: Any
    allowed: str
    meaning: str
    variable: str
    alias: str | None
    secret: bool


class SettingList(Shown):
    items: list[SettingShape]
    next_cursor: str | None
