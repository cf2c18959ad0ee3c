"""Bulk replays: all of them, the dialog that plans one, and one of them from its plan to its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from fastapi import Query
from starlette.responses import Response

from redrive.errors import InvalidValueError
from redrive.failures.service import Failures
from redrive.model.operation import ReplayOperation
from redrive.model.replay import OperationState, ReplayState
from redrive.policy.rollout import RolloutOptions
from redrive.server.admin.page import OnPage, Pages
from redrive.server.admin.replay_meant import Meant, meant
from redrive.server.admin.replay_progress import Part, bar, ended, replayed
from redrive.server.admin.replay_view import common, progress
from redrive.server.admin.replay_words import MODES, Chosen, chosen
from redrive.server.api.request import Cursor, Id

pages = Pages("replays")

SIZE = 20


class Line(NamedTuple):
    """A bulk replay as the list shows it."""

    operation: ReplayOperation
    chosen: Chosen
    bar: Sequence[Part]
    ended: int
    replayed: int
    failed: int


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
    unsafe: bool = False,
) -> Response:
    """What is meant, and how carefully; the plan follows. `unsafe`: nothing is to be left out."""
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
        unsafe=unsafe,
        under_way=await _is_under_way(desk),
        command="" if found is None else _command(found),
        modes=MODES,
        options=RolloutOptions(),
    )


async def _is_under_way(desk: Failures) -> bool:
    """Then only the plan knows how many will run: those that it will reach are refused."""
    known = (OperationState.RUNNING, OperationState.PAUSED)
    return any(each.state in known for each in await desk.operations.under_way())


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
    values = await common(desk, report)
    if report.operation.state == OperationState.PLANNED:
        return await page.render("replay_plan.html", place="replays", **values)
    more = await progress(desk, report, state, cursor, page.now)
    return await page.render("replay.html", place="replays", **values, **more)
