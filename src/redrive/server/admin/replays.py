"""Bulk replays: the list, the dialog that plans one, and the page of one from its plan to its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import Query
from starlette.responses import Response

from redrive.engine.run_view import StepView
from redrive.errors import InvalidValueError
from redrive.model.operation import ReplayOperation
from redrive.model.replay import OperationState, ReplayState
from redrive.policy.rollout import RolloutOptions
from redrive.server.admin.page import OnPage, Pages
from redrive.server.admin.replay_editor import steps_before
from redrive.server.admin.replay_report import ProgressPart, bar, common, ended, named, progress, replayed
from redrive.server.admin.selection import select_replay
from redrive.server.api.request import Cursor, OperationId
from redrive.words.replay import MODES, Selection, selection_of

pages = Pages("replays")

PAGE_SIZE = 20


class ReplayLine(NamedTuple):
    """A bulk replay in the list."""

    operation: ReplayOperation
    selection: Selection
    bar: Sequence[ProgressPart]
    ended: int
    replayed: int
    failed: int


@pages.get("/replays")
async def list_(page: OnPage, cursor: Cursor = None) -> Response:
    """Show those in progress first, on the first page."""
    failures = page.visit.failures
    found = await failures.plans.list(size=PAGE_SIZE, cursor=cursor)
    active = await failures.plans.active() if cursor is None else ()
    active_ids = {operation.id for operation in active}
    others = [operation for operation in found.operations if operation.id not in active_ids]
    counts = await failures.plans.progress([*active, *others])
    selections = await named(failures, [selection_of(line.selection) for line in (*active, *others)])
    lines = [
        _line(operation, selection, counts[operation.id])
        for operation, selection in zip((*active, *others), selections, strict=True)
    ]
    return await page.render(
        "replays.html",
        place="replays",
        active=lines[: len(active)],
        others=lines[len(active) :],
        first=cursor is not None,
        cursor=found.next_cursor,
    )


def _line(operation: ReplayOperation, selection: Selection, counts: Mapping[str, int]) -> ReplayLine:
    return ReplayLine(
        operation,
        selection,
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
    """Show the dialog that plans a replay. `unsafe`: include dead letters with unsafe effects."""
    failures, problem, found, verdict = page.visit.failures, "", None, None
    steps: Sequence[StepView] = ()
    try:
        named = await page.visit.ids.complete_letters([name for name in (ids or "").split(",") if name])
        found = await select_replay(failures, q, named, group)
    except InvalidValueError as error:
        problem = str(error)
    if found is not None and found.one is not None:
        verdict = await failures.verdict(found.one.id)
        steps = await steps_before(page, found.one.run_id, found.one.step_index)
    return await page.render(
        "replay_new.html",
        place="replays",
        status=422 if problem else 200,
        selection=found,
        verdict=verdict,
        steps=steps,
        problem=problem,
        query=q or "",
        unsafe=unsafe,
        # While another replay is in progress, only the plan knows how many will run: it rejects its items.
        other_in_progress=any(
            operation.state in (OperationState.RUNNING, OperationState.PAUSED)
            for operation in await failures.plans.active()
        ),
        command="" if found is None else command_of(found.body),
        modes=MODES,
        options=RolloutOptions(),
    )


def command_of(body: Mapping[str, Any]) -> str:
    """Return the command line that plans the same."""
    if "ids" in body:
        return shlex.join(["redrive", "replay", "plan", *body["ids"]])
    name = "query" if "query" in body else "group"
    return shlex.join(["redrive", "replay", "plan", f"--{name}", body[name]])


@pages.get("/replays/{id}")
async def one(
    page: OnPage,
    operation_id: OperationId,
    state: Annotated[ReplayState | None, Query()] = None,
    cursor: Cursor = None,
) -> Response:
    """Show the plan until the replay is started, and then its progress."""
    failures = page.visit.failures
    report = await failures.plans.report(operation_id)
    values = await common(failures, report)
    if report.operation.state == OperationState.PLANNED:
        return await page.render("replay_plan.html", place="replays", **values)
    more = await progress(failures, report, state, cursor, page.now)
    return await page.render("replay.html", place="replays", **values, **more)
