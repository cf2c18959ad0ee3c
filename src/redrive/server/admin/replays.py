"""Bulk replays: all of them, the dialog that plans one, and one of them from its plan to its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import Query
from starlette.responses import Response

from redrive.engine.desk import Desk
from redrive.errors import InvalidValueError
from redrive.model.dead_letter import DeadLetterLine
from redrive.model.failure_group import FailureGroup
from redrive.model.operation import FailedAs, OperationReport, ReplayOperation
from redrive.model.query import Term
from redrive.model.replay import OperationState, Replay, ReplayState
from redrive.policy.rollout import RolloutOptions
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.admin.policy_words import policy_words
from redrive.server.admin.replay_meant import FEW, Meant, meant
from redrive.server.admin.replay_progress import ORDER, Part, bar, canary, ended, pace, replayed
from redrive.server.admin.replay_words import (
    MODES,
    Chosen,
    careful,
    chosen,
    plan_again,
    rollout_of,
    waits,
)
from redrive.server.api.parameter import Cursor, Id

pages = Pages("replays")

SIZE, ITEMS, HISTORY = 20, 50, 20
MOST_AGAIN = 500
"""So many dead letters, chosen by hand, are remembered for a plan that is made anew."""


class Line(NamedTuple):
    """A bulk replay as the list shows it."""

    operation: ReplayOperation
    chosen: Chosen
    bar: Sequence[Part]
    ended: int
    replayed: int
    failed: int


class Item(NamedTuple):
    """`letter` is None when it was removed since."""

    replay: Replay
    letter: DeadLetterLine | None


class Failure(NamedTuple):
    """`group` is None when it was removed since."""

    how: FailedAs
    group: FailureGroup | None


@pages.get("/replays")
async def list_(page: OnPage, cursor: Cursor = None) -> Response:
    """What is under way comes first, on the first page."""
    desk = await page.visit.desk()
    found = await desk.operations.list(size=SIZE, cursor=cursor)
    active = await desk.operations.under_way() if cursor is None else ()
    shown = {each.id for each in active}
    others = [each for each in found.operations if each.id not in shown]
    counts = await desk.operations.progress([*active, *others])
    return await page.render(
        "replays.html",
        place="replays",
        active=[_line(each, counts[each.id]) for each in active],
        others=[_line(each, counts[each.id]) for each in others],
        first=cursor is not None,
        cursor=found.next_cursor,
    )


def _line(operation: ReplayOperation, counts: Mapping[str, int]) -> Line:
    return Line(
        operation,
        chosen(operation),
        bar(counts),
        ended(counts),
        replayed(counts),
        counts[ReplayState.FAILED],
    )


@pages.get("/replays/new")
async def new(
    page: OnPage,
    q: Annotated[str | None, Query(max_length=2000)] = None,
    ids: Annotated[str | None, Query(max_length=20_000)] = None,
    group: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """What is meant, and how carefully; the plan follows."""
    desk, problem, found, verdict = await page.visit.desk(), "", None, None
    try:
        found = await meant(desk, q, ids, group)
    except InvalidValueError as error:
        problem = str(error)
    if found is not None and found.one is not None:
        verdict = await desk.verdict(found.one.id)
    return await page.render(
        "replay_new.html",
        place="replays",
        status=422 if problem else 200,
        meant=found,
        verdict=verdict,
        problem=problem,
        query=q or "",
        command="" if found is None else _command(found),
        modes=MODES,
        options=RolloutOptions(),
    )


def _command(wanted: Meant) -> str:
    body = wanted.body
    if "ids" in body:
        return shlex.join(["redrive", "replay", "plan", *body["ids"]])
    name = "query" if "query" in body else "group"
    return shlex.join(["redrive", "replay", "plan", f"--{name}", body[name]])


@pages.get("/replays/{id}")
async def one(
    page: OnPage,
    operation_id: Id,
    state: Annotated[ReplayState | None, Query()] = None,
    cursor: Cursor = None,
) -> Response:
    """The plan until it is started, from then on how far it is."""
    desk = await page.visit.desk()
    report = await desk.operations.report(operation_id)
    common = await _common(desk, report)
    if report.operation.state == OperationState.PLANNED:
        return await page.render("replay_plan.html", place="replays", **common)
    more = await _progress(page, desk, report, state, cursor)
    return await page.render("replay.html", place="replays", **common, **more)


async def _common(desk: Desk, report: OperationReport) -> dict[str, Any]:
    operation = report.operation
    by_hand = chosen(operation).kind == "ids"
    first = await desk.operations.items(operation.id, size=MOST_AGAIN if by_hand else FEW)
    letters = [each.letter_id for each in first.items]
    few = report.plan.selected <= FEW
    complete = letters if by_hand and first.next_cursor is None else ()
    return {
        "operation": operation,
        "plan": report.plan,
        "chosen": chosen(operation),
        "modes": MODES,
        "careful": list(careful(rollout_of(operation).options, report.plan.will_run)),
        "override": policy_words(operation.policy_override),
        "waits": list(waits(report.plan)),
        "again": plan_again(operation, complete),
        "letters": await desk.dead_letters.lines(letters) if few else (),
    }


async def _progress(
    page: Page, desk: Desk, report: OperationReport, state: ReplayState | None, cursor: str | None
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
        "pace": None if paused else pace(report, rollout, page.now),
        "failures": await _failures(desk, operation.id) if report.failures else (),
        "shown": await _items(desk, found.items),
        "history": history.entries,
        "states": ORDER,
        "state": state,
        "first": cursor is not None,
        "cursor": found.next_cursor,
    }


async def _items(desk: Desk, replays: Sequence[Replay]) -> list[Item]:
    lines = {each.id: each for each in await desk.dead_letters.lines([each.letter_id for each in replays])}
    return [Item(each, lines.get(each.letter_id)) for each in replays]


async def _failures(desk: Desk, operation_id: str) -> list[Failure]:
    ways = await desk.operations.failures(operation_id)
    names = tuple(each.fingerprint for each in ways if each.fingerprint)
    try:
        found = (await desk.groups.search(str(Term("fp", names)), size=len(names))).lines if names else ()
    except InvalidValueError:  # a fingerprint that somebody else's code has made
        found = ()
    groups = {each.group.fingerprint: each.group for each in found}
    return [Failure(each, groups.get(each.fingerprint)) for each in ways]
