"""One bulk replay as its page shows it: its plan, its progress, its items, and how they failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError, NotFoundError, RedriveError
from redrive.failures.service import Failures
from redrive.model.audit import Action
from redrive.model.dead_letter import DeadLetterLine
from redrive.model.failure_group import FailureGroup
from redrive.model.operation import FailedAs, OperationReport, ReplayOperation
from redrive.model.query import Term
from redrive.model.replay import Replay, ReplayState
from redrive.policy.description import describe_stored_policy
from redrive.policy.rollout import RolloutOptions, RolloutPlan
from redrive.server.admin.replay_progress import ORDER, bar, canary, ended, pace, replayed
from redrive.server.admin.selection import MAX_LISTED
from redrive.server.api.resource import object_in, value_in
from redrive.words.replay import (
    MODES,
    Selection,
    blocking_operation,
    describe_rollout,
    selection_of,
    waits_of,
)

PAGE_SIZE, HISTORY_SIZE = 50, 20
MAX_REPEATED_IDS = 500
"""A plan of dead letters that were selected by id can be repeated if there are no more of them."""


class Item(NamedTuple):
    """`letter` is None if it was removed since."""

    replay: Replay
    letter: DeadLetterLine | None


class ReplayFailure(NamedTuple):
    """`group` is None if it was removed since."""

    how: FailedAs
    group: FailureGroup | None


async def common(desk: Failures, report: OperationReport) -> dict[str, Any]:
    operation = report.operation
    selection = selection_of(object_in(operation.selection))
    by_id = selection.kind == "ids"
    first = await desk.operations.items(operation.id, size=MAX_REPEATED_IDS if by_id else MAX_LISTED)
    letters = [replay.letter_id for replay in first.items]
    few = report.plan.selected <= MAX_LISTED
    complete = letters if by_id and first.next_cursor is None else ()
    return {
        "operation": operation,
        "plan": report.plan,
        "selection": await _named(desk, selection),
        "modes": MODES,
        "rollout": list(describe_rollout(rollout_of(operation).options, report.plan.will_run)),
        "override": describe_stored_policy(operation.policy_override),
        "waits": list(waits_of(report.plan.waits)),
        "blocking_operation": blocking_operation,
        "again": plan_again(operation, complete),
        "letters": await desk.dead_letters.lines(letters) if few else (),
    }


async def _named(desk: Failures, selection: Selection) -> Selection:
    """Add the title of a failure group, unless it was removed since."""
    if selection.kind != "group":
        return selection
    try:
        return selection._replace(title=(await desk.groups.get(selection.text)).group.title)
    except (InvalidValueError, NotFoundError):
        return selection


def rollout_of(operation: ReplayOperation) -> RolloutPlan:
    """Read the stored rollout; damaged data becomes the default, so that the page can be shown."""
    try:
        return RolloutPlan.from_text(operation.options)
    except (RedriveError, AttributeError, LookupError, TypeError):
        return RolloutPlan(RolloutOptions())


def plan_again(operation: ReplayOperation, ids: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the request that plans the same again; None if the selection is not known any more.

    `ids` are all dead letters of an operation that stores only some of them.
    """
    stored = object_in(operation.selection)
    selected = dict(selection_of(stored).parameters) or ({"ids": list(ids)} if ids else {})
    if not selected:
        return None
    options = rollout_of(operation).options
    request = {
        **selected,
        "mode": operation.mode,
        "reason": operation.reason,
        "exclude_unsafe": bool(stored.get("exclude_unsafe")),
        **{name: getattr(options, name) for name in RolloutOptions.__slots__},
    }
    if operation.policy_override is not None:
        request["override_retry_policy"] = value_in(operation.policy_override)
    return request


async def progress(
    desk: Failures, report: OperationReport, state: ReplayState | None, cursor: str | None, now: float
) -> dict[str, Any]:
    operation, rollout = report.operation, rollout_of(report.operation)
    found = await desk.operations.items(operation.id, state=state, size=PAGE_SIZE, cursor=cursor)
    history = await desk.audit.list(subject=operation.id, size=HISTORY_SIZE)
    paused = any(entry.action == Action.OPERATION_PAUSED for entry in history.entries)
    return {
        "report": report,
        "bar": bar(report.items),
        "ended": ended(report.items),
        "replayed": replayed(report.items),
        "options": rollout.options,
        "canary": canary(report, rollout),
        "pace": None if paused else pace(report, rollout, now),
        "failures": await _failures(desk, operation.id) if report.failures else (),
        "shown": await _items(desk, found.items),
        "history": history.entries,
        "states": ORDER,
        "state": state,
        "first": cursor is not None,
        "cursor": found.next_cursor,
    }


async def _items(desk: Failures, replays: Sequence[Replay]) -> list[Item]:
    lines = await desk.dead_letters.lines([replay.letter_id for replay in replays])
    by_id = {line.id: line for line in lines}
    return [Item(replay, by_id.get(replay.letter_id)) for replay in replays]


async def _failures(desk: Failures, operation_id: str) -> list[ReplayFailure]:
    ways = await desk.operations.failures(operation_id)
    names = tuple(way.fingerprint for way in ways if way.fingerprint)
    try:
        found = (await desk.groups.search(str(Term("fp", names)), size=len(names))).lines if names else ()
    except InvalidValueError:  # a fingerprint in a format of the user's own
        found = ()
    groups = {line.group.fingerprint: line.group for line in found}
    return [ReplayFailure(way, groups.get(way.fingerprint)) for way in ways]
