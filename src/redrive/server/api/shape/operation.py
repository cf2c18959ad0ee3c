"""Bulk replays, as requests and answers have them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from redrive.model.operation import MAX_ITEMS
from redrive.model.replay import Mode, OperationState
from redrive.server.api.shape.base import Asked, Ids, Moment, Reason, Shown
from redrive.server.api.shape.dead_letter_change import Policy
from redrive.server.api.shape.replay import ReplayShape

Number = Annotated[int, Field(ge=1, le=MAX_ITEMS)]


class PlanRequest(Asked):
    """What is to be replayed, by one of query, ids and group, and how carefully.

    `expect` is how many are to be replayed: if they are not as many, nothing is planned.
    """

    query: Annotated[str | None, Field(max_length=2000)] = None
    ids: Ids | None = None
    group: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    mode: Annotated[Mode, Field(strict=False)] = Mode.FROM_STEP
    override_retry_policy: Policy = None
    exclude_unsafe: bool = False
    expect: Annotated[int | None, Field(ge=0, le=MAX_ITEMS)] = None
    reason: Reason = ""
    canary: Annotated[int, Field(ge=0, le=MAX_ITEMS)] = 10
    rate: Annotated[float | None, Field(ge=0.001, le=100_000, allow_inf_nan=False)] = None
    failure_rate: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.2
    minimum: Number = 10
    same_failures: Number | None = 5
    stop_on_breaker: bool = True


class PlanShape(Shown):
    """What it will do, frozen: the numbers shown are the numbers affected."""

    operation_id: str
    digest: str
    mode: Mode
    selected: int
    will_run: int
    steps: dict[str, int]
    results_reused: int
    waits: dict[str, int]
    refused: dict[str, int]
    skipped: int
    may_repeat_effects: int
    repeat_under_key: int
    breakers: list[str]


class OptionsShape(Shown):
    canary: int
    rate: float | None
    failure_rate: float
    minimum: int
    same_failures: int | None
    stop_on_breaker: bool


class OperationShape(Shown):
    """`released` items were begun so far."""

    id: str
    state: OperationState
    mode: Mode
    selection: dict[str, Any]
    options: OptionsShape
    override_retry_policy: Any
    reason: str
    plan: PlanShape
    planned_by: str
    planned_at: Moment
    started_by: str | None
    started_at: Moment | None
    released: int
    released_at: Moment | None
    ramped_at: Moment | None
    ended_at: Moment | None
    stopped_because: str | None
    updated_at: Moment


class OperationPage(Shown):
    items: list[OperationShape]
    next_cursor: str | None


class ItemPage(Shown):
    items: list[ReplayShape]
    next_cursor: str | None


class ReportShape(Shown):
    """What came of it so far: items by state, failed ones by fingerprint, refused and skipped ones by why."""

    operation: OperationShape
    items: dict[str, int]
    failures: dict[str, int]
    notes: dict[str, int]
    first_started_at: Moment | None
    last_ended_at: Moment | None
    failure_rate: float | None
    seconds: float | None


class DriftShape(Shown):
    position: int
    letter_id: str
    change: str


class DriftingShape(Shown):
    """`number` dead letters have changed since it was planned, of which `changes` are the first; `will_run`
    are the others."""

    will_run: int
    number: int
    changes: list[DriftShape]


class Start(Asked):
    """With `accept_drift`, dead letters that have changed since are left out; else nothing is started. Nor is
    anything when not exactly as many as `expect` says would be replayed."""

    accept_drift: bool = False
    expect: Annotated[int | None, Field(ge=0, le=MAX_ITEMS)] = None
