"""What the page of one bulk replay shows: its plan, how far it is, its items, and how they failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError, NotFoundError
from redrive.failures.service import Failures
from redrive.model.dead_letter import DeadLetterLine
from redrive.model.failure_group import FailureGroup
from redrive.model.operation import FailedAs, OperationReport
from redrive.model.query import Term
from redrive.model.replay import Replay, ReplayState
from redrive.server.admin.policy_words import policy_words
from redrive.server.admin.replay_meant import FEW
from redrive.server.admin.replay_progress import ORDER, bar, canary, ended, pace, replayed
from redrive.server.admin.replay_words import (
    MODES,
    Chosen,
    careful,
    chosen,
    plan_again,
    reaching,
    rollout_of,
    waits,
)

ITEMS, HISTORY = 50, 20
MAX_REPEATS = 500
"""So many dead letters, chosen by hand, are remembered for a plan that is made anew."""


class Item(NamedTuple):
    """`letter` is None when it was removed since."""

    replay: Replay
    letter: DeadLetterLine | None


class Failure(NamedTuple):
    """`group` is None when it was removed since."""

    how: FailedAs
    group: FailureGroup | None


async def common(desk: Failures, report: OperationReport) -> dict[str, Any]:
    operation = report.operation
    by_hand = chosen(operation).kind == "ids"
    first = await desk.operations.items(operation.id, size=MAX_REPEATS if by_hand else FEW)
    letters = [each.letter_id for each in first.items]
    few = report.plan.selected <= FEW
    complete = letters if by_hand and first.next_cursor is None else ()
    return {
        "operation": operation,
        "plan": report.plan,
        "chosen": await _named(desk, chosen(operation)),
        "modes": MODES,
        "careful": list(careful(rollout_of(operation).options, report.plan.will_run)),
        "override": policy_words(operation.policy_override),
        "waits": list(waits(report.plan)),
        "reaching": reaching,
        "again": plan_again(operation, complete),
        "letters": await desk.dead_letters.lines(letters) if few else (),
    }


async def _named(desk: Failures, selected: Chosen) -> Chosen:
    """A failure group by its title; it may be gone since."""
    if selected.kind != "group":
        return selected
    try:
        return selected._replace(title=(await desk.groups.get(selected.text)).group.title)
    except (InvalidValueError, NotFoundError):
        return selected


async def progress(
    desk: Failures, report: OperationReport, state: ReplayState | None, cursor: str | None, now: float
) -> dict[str, Any]:
    operation, rollout = report.operation, rollout_of(report.operation)
    found = await desk.operations.items(operation.id, state=state, size=ITEMS, cursor=cursor)
    history = await desk.audit.list(subject=operation.id, size=HISTORY)
    paused = any(each.action == "operation.paused" for each in history.entries)
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
    lines = {each.id: each for each in await desk.dead_letters.lines([each.letter_id for each in replays])}
    return [Item(each, lines.get(each.letter_id)) for each in replays]


async def _failures(desk: Failures, operation_id: str) -> list[Failure]:
    ways = await desk.operations.failures(operation_id)
    names = tuple(each.fingerprint for each in ways if each.fingerprint)
    try:
        found = (await desk.groups.search(str(Term("fp", names)), size=len(names))).lines if names else ()
    except InvalidValueError:  # a fingerprint that somebody else's code has made
        found = ()
    groups = {each.group.fingerprint: each.group for each in found}
    return [Failure(each, groups.get(each.fingerprint)) for each in ways]
