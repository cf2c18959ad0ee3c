"""Runs: the list that a query selects, and the page of one run with its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any, NamedTuple

from starlette.responses import Response

from redrive.engine.id_lookup import IdKind
from redrive.engine.run_view import PlannedStep, RunSummary, RunView, StepView
from redrive.engine.runs import Runs
from redrive.errors import InvalidValueError
from redrive.model.query import Query, Term
from redrive.model.run import FAILED_RUNS, LIVE_RUNS, Place
from redrive.policy.access import may_retry
from redrive.policy.description import describe_stored_policy
from redrive.server.admin.event_origin import origin_of_run
from redrive.server.admin.jump import page_of_id
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.admin.timeline import timeline
from redrive.server.admin.tree import Tree, tree_of
from redrive.server.api.request import Cursor, QueryText, RunId
from redrive.words.worker import blocked_text

pages = Pages("runs")

PAGE_SIZE = 50
MAX_ATTEMPTS = 100
QUICK = (
    ("", "All"),
    ("is:live", "Live"),
    ("is:executing", "Running"),
    ("is:waiting", "Waiting"),
    ("is:held", "On hold"),
    ("is:failed", "Failed"),
    ("is:succeeded", "Succeeded"),
    ("is:cancelled", "Cancelled"),
)


class RunEntry(NamedTuple):
    """`state` is more precise than the stored state, such as HELD."""

    run: RunSummary
    state: str
    seconds: float | None


class RunStep(NamedTuple):
    """A step on the page of a run; a tree is None without a value."""

    step: StepView
    planned: PlannedStep | None
    config: Tree | None
    output: Tree | None
    policy: Sequence[str]


@pages.get("/runs")
async def listed(page: OnPage, q: QueryText = "", cursor: Cursor = None) -> Response:
    runs = page.visit.runs
    try:
        if (found_page := await page_of_id(page, q, IdKind.RUN)) is not None:
            return found_page
        found, problem = await _found(page, runs, q, cursor), ""
    except InvalidValueError as error:
        found, problem = {"lines": (), "next_cursor": None, "count": None}, str(error)
    return await page.render(
        "runs.html",
        place="runs",
        status=422 if problem else 200,
        query=q,
        cursor=cursor,
        problem=problem,
        quick=QUICK,
        asked=asked,
        retriable=await _retriable(page, [line.run for line in found["lines"]]),
        views=await page.saved_views("runs"),
        command=f"redrive run list {quote(q)}" if q else "redrive run list",
        **found,
    )


@pages.get("/runs/{id}")
async def one(page: OnPage, run_id: RunId) -> Response:
    runs = page.visit.runs
    run, story = await runs.view(run_id), await runs.story(run_id)
    planned = {step.step_index: step for step in run.steps}
    has_failed = run.state in FAILED_RUNS
    may_retry_it = has_failed and may_retry(page.visit.principal, await runs.owner(run_id))
    newest = sorted(
        story.attempts,
        key=lambda attempt: (
            attempt.started_at or attempt.ended_at or 0.0,
            attempt.step_index,
            attempt.number,
        ),
        reverse=True,
    )
    return await page.render(
        "run.html",
        place="runs",
        run=run,
        line=line_of(run, page.now),
        story=story,
        drawn=timeline(run, story, page.now, page.preferences.zone),
        steps=[_step(step, planned.get(step.step_index)) for step in story.steps],
        attempts=newest[:MAX_ATTEMPTS],
        more_attempts=max(0, len(newest) - MAX_ATTEMPTS),
        input=tree_of(run.input),
        result=tree_of(run.result) if run.result is not None else None,
        metadata=tree_of(run.metadata) if run.metadata else None,
        progress=tree_of(run.progress) if run.progress is not None else None,
        asked=asked,
        is_live=run.state in LIVE_RUNS,
        has_failed=has_failed,
        may_retry=may_retry_it,
        obstacle=await page.visit.failures.obstacle_to_replay_run(run_id) if may_retry_it else None,
        trouble=await _trouble(page, run),
        origin=await origin_of_run(page, run.workflow, run.correlation_id),
    )


async def _trouble(page: OnPage, run: RunView) -> str:
    """Say why the worker that executes the run does not work; "" if it does."""
    if run.place != Place.LEASED:
        return ""
    for worker in await page.visit.workers.list():
        if worker.id == run.worker and worker.seconds_blocked is not None:
            return blocked_text(worker.seconds_blocked, worker.blocking_step)
    return ""


def asked(key: str, value: str) -> str:
    """Return a query for one value, quoted if necessary."""
    return str(Query((Term(key, (value,)),)))


def line_of(run: RunSummary, now: float) -> RunEntry:
    until = now if run.ended_at is None else run.ended_at
    seconds = None if run.started_at is None else max(0.0, until - run.started_at)
    return RunEntry(run, run.detailed_state, seconds)


async def _found(page: Page, runs: Runs, query: str, cursor: str | None) -> dict[str, Any]:
    found = await runs.list(
        query, size=min(PAGE_SIZE, page.visit.parts.settings.server_page_size), cursor=cursor
    )
    return {
        "lines": [line_of(run, page.now) for run in found.runs],
        "next_cursor": found.next_cursor,
        "count": await runs.count(query),
    }


async def _retriable(page: Page, runs: Sequence[RunSummary]) -> set[str]:
    """Return the failed runs that the visitor may retry."""
    principal = page.visit.principal
    failed = [run.id for run in runs if run.state in FAILED_RUNS]
    if may_retry(principal, None):
        return set(failed)
    return {run_id for run_id in failed if may_retry(principal, await page.visit.runs.owner(run_id))}


def _step(step: StepView, planned: PlannedStep | None) -> RunStep:
    return RunStep(
        step,
        planned,
        tree_of(step.config) if step.config else None,
        tree_of(step.output) if step.output is not None else None,
        describe_stored_policy(step.retry_policy),
    )
