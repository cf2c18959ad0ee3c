"""Runs: find them, read the history of one, cancel or retry it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, create_model
from starlette.responses import Response

from redrive.engine.history import Happening
from redrive.engine.run_view import (
    AttemptView,
    LetterMark,
    PlannedStep,
    RunError,
    RunSummary,
    RunView,
    StepView,
)
from redrive.model.run import Cancellation, RunState
from redrive.policy.access import Permission
from redrive.server.access_control import may
from redrive.server.answer import answer, page
from redrive.server.api.request import Cursor, Id, QueryText, Reasoned, Size, at_most, reason_of
from redrive.server.api.resource import COUNT, Resource, ResponseBody
from redrive.server.problem import ProblemError
from redrive.server.request_context import CallersFailures, CallersRuns, Visiting
from redrive.server.route import Routes

PREFIX = "/api/v1/runs"
ALIASES = ("/api/v1/jobs",)

routes = Routes("runs", PREFIX, ALIASES)
jobs = Routes("jobs", "/api/jobs")
"""Other systems know the retry of a job under this address; a job is a run of one step."""

READ, OPERATE = may(Permission.READ), may(Permission.OPERATE)


def _step_index(happening: Happening) -> int | None:
    return None if happening.step_index < 0 else happening.step_index


LINE = Resource(
    RunSummary,
    "RunLineShape",
    description=(
        "As lists show it. `attempt` counts those of the current step, `failures` those towards its budget; "
        "`held_by` is the breaker or limit that its work waits for."
    ),
    properties=("next_retry_at",),
)
PLANNED_STEP = Resource(PlannedStep, "PlannedStepShape")
ERROR = Resource(RunError, "RunErrorShape")
LETTER_MARK = Resource(LetterMark, "LetterMarkShape")
RUN = Resource(
    RunView,
    "RunShape",
    description="With what it was given and has given, redacted; what no key opens is shown as `$sealed`.",
    properties=("next_retry_at",),
)
STEP = Resource(
    StepView,
    "StepShape",
)
ATTEMPT = Resource(
    AttemptView,
    "AttemptShape",
    description=(
        "One execution of a step, redacted. `delay` is the wait that was decided on after it, in seconds; "
        "`replay` counts the replays before it."
    ),
)
ATTEMPTS = ATTEMPT.page("AttemptList")
HAPPENING = Resource(
    Happening,
    "HappeningShape",
    description="`what` is queued, started, retry, held, succeeded, finished, and the like.",
    computed={"step_index": _step_index},
)


def _state_counts() -> type[BaseModel]:
    fields: Any = {state.value: (COUNT.model, ...) for state in RunState}
    text = "How many runs there are in each state, counted up to 10,000 each."
    return create_model("StateCounts", __base__=ResponseBody, __doc__=text, **fields)


class RunMark(ResponseBody):
    """That there is such a run, and how it stands."""

    id: str
    state: RunState


class Cancelled(ResponseBody):
    """`requested`: a worker is executing it just now, and is told."""

    id: str
    outcome: Cancellation


@routes.get("", READ, returns=LINE.page("RunPage"))
async def list_(visit: Visiting, q: QueryText = "", size: Size = 50, cursor: Cursor = None) -> Response:
    """Those that fulfil a query, the newest first."""
    found = await visit.runs.list(q, size=at_most(size, visit), cursor=cursor)
    return page(LINE.views(found.runs), found.next_cursor)


@routes.get("/count", READ, returns=COUNT.model)
async def count(runs: CallersRuns, q: QueryText = "") -> Response:
    """How many fulfil a query; counted up to 10,000."""
    return answer(COUNT.view(await runs.count(q)))


@routes.get("/counts", READ, returns=_state_counts())
async def counts(runs: CallersRuns) -> Response:
    """How many there are in each state; counted up to 10,000 each."""
    found = await runs.counts()
    return answer({state: COUNT.view(number) for state, number in found.items()})


@routes.get("/{id}", READ, returns=RUN.model)
async def get(runs: CallersRuns, run_id: Id) -> Response:
    """One run, with what it was given and has given, redacted."""
    return answer(RUN.view(await runs.view(run_id)))


@routes.get("/{id}/steps", READ, returns=STEP.page("StepList"))
async def steps(runs: CallersRuns, run_id: Id) -> Response:
    """Its steps, each with its retry policy and what came of it."""
    return page(STEP.views(await runs.steps(run_id)), None)


@routes.get("/{id}/attempts", READ, returns=ATTEMPTS)
async def attempts(runs: CallersRuns, run_id: Id) -> Response:
    """Every execution of its steps, in order."""
    return page(ATTEMPT.views(await runs.attempts(run_id)), None)


@routes.get("/{id}/events", READ, returns=HAPPENING.page("HappeningList"))
async def events(runs: CallersRuns, run_id: Id) -> Response:
    """What has happened to it, in order of time."""
    return page(HAPPENING.views(await runs.events(run_id)), None)


@routes.post("/{id}/cancel", OPERATE, responses={200: {"model": Cancelled}, 202: {"model": Cancelled}})
async def cancel(runs: CallersRuns, run_id: Id, body: Reasoned | None = None) -> Response:
    """End it before its time. 202: it is being executed, and its worker is told."""
    outcome = await runs.cancel(run_id, reason=reason_of(body))
    if outcome is Cancellation.ENDED:
        detail = f"the run {run_id} has ended already"
        raise ProblemError(409, "wrong_state", detail, hint="look at its present state first")
    return answer({"id": run_id, "outcome": outcome}, 202 if outcome is Cancellation.REQUESTED else 200)


@routes.post("/{id}/retry", OPERATE, status_code=202, returns=RunMark)
@jobs.post("/{id}/retry", OPERATE, status_code=202, returns=RunMark)
async def retry(
    visit: Visiting, failures: CallersFailures, run_id: Id, body: Reasoned | None = None
) -> Response:
    """Queue a failed run again where it stopped, while what it works on still exists."""
    await failures.replay_run(run_id, reason=reason_of(body))
    state = await visit.app.run(run_id, visit.org).state()
    return answer({"id": run_id, "state": state}, 202, {"Location": f"{PREFIX}/{run_id}"})
