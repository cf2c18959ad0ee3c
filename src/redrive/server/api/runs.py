"""Runs: list and count them, read the history of one, cancel or retry it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, create_model
from starlette.responses import Response

from redrive.engine.history import TimelineEvent
from redrive.engine.run_view import (
    AttemptView,
    LetterMark,
    PlannedStep,
    RunError,
    RunSummary,
    RunView,
    StepView,
)
from redrive.errors import NotFoundError
from redrive.model.dead_letter import DeadLetter
from redrive.model.run import Cancellation, RunState
from redrive.model.run_order import RunOrder
from redrive.policy.access import Permission, may_retry
from redrive.policy.stack import RaisedException, StackFrame, stack_of
from redrive.server.access_control import forbidden, may
from redrive.server.answer import answer, page
from redrive.server.api.request import Cursor, QueryText, Reasoned, RunId, Size, at_most, reason_of
from redrive.server.api.resource import COUNT, Resource, ResponseBody
from redrive.server.problem import ProblemError
from redrive.server.request_context import CallersFailures, CallersRuns, RequestContext, Visiting
from redrive.server.route import Routes

PREFIX = "/api/v1/runs"
ALIASES = ("/api/v1/jobs",)

routes = Routes("runs", PREFIX, ALIASES)
jobs = Routes("jobs", "/api/jobs")
"""A path that other systems use to retry a job, which is a run with one step."""

READ, OPERATE = may(Permission.READ), may(Permission.OPERATE)
RETRY = may(Permission.RETRY, owners=True)


def _step_index(event: TimelineEvent) -> int | None:
    return None if event.step_index < 0 else event.step_index


LINE = Resource(
    RunSummary,
    "RunLineShape",
    description=(
        "A run in a list. `attempt` counts the attempts of the current step, `failures` the ones that "
        "count against its retry budget; `held_by` is the breaker or limit that holds the run, such "
        "as `breaker:bank`, or the order key for which it waits, such as `order:customer-7`."
    ),
    properties=("next_retry_at", "updated_at", "status"),
)
PLANNED_STEP = Resource(PlannedStep, "PlannedStepShape")
ERROR = Resource(RunError, "RunErrorShape")
LETTER_MARK = Resource(LetterMark, "LetterMarkShape")
ORDER = Resource(
    RunOrder,
    "RunOrderShape",
    description=(
        "The order key of a run and its place in the order. `waits_for` is the first run of the key, if that "
        "is another one; `before` and `behind` count the runs on each side, up to 1,000."
    ),
)
RUN = Resource(
    RunView,
    "RunShape",
    description="A run with its input and result, redacted. Undecryptable data is shown as `$sealed`.",
    properties=("next_retry_at", "updated_at", "status", "dlq_enqueued", "dlq_task_id"),
)
FRAME = Resource(StackFrame, "FrameShape")
EXCEPTION = Resource(
    RaisedException,
    "ExceptionShape",
    description="An exception of a stored traceback: the one that was caught, then what led to it.",
)


def exceptions_of(failed: AttemptView | DeadLetter) -> tuple[RaisedException, ...]:
    return stack_of(failed.stack).exceptions


STEP = Resource(
    StepView,
    "StepShape",
)
ATTEMPT = Resource(
    AttemptView,
    "AttemptShape",
    description=(
        "One execution of a step, redacted. `delay` is the wait after it in seconds; `replay` counts the "
        "replays before it. `exceptions` is the parsed `stack`; a text without frames of Python has none."
    ),
    computed={"exceptions": exceptions_of},
)
ATTEMPTS = ATTEMPT.page("AttemptList")
TIMELINE_EVENT = Resource(
    TimelineEvent,
    "TimelineEventShape",
    description=(
        "An event of a run. `what` is its kind, such as queued, started, retry, held or finished; "
        "`job_event` is its name in a job queue: queued, processing, retry, complete or failed."
    ),
    hidden=("ended_run",),
    properties=("job_event",),
    computed={"step_index": _step_index},
)


def _state_counts() -> type[BaseModel]:
    fields: Any = {state.value: (COUNT.model, ...) for state in RunState}
    text = "The number of runs in each state, counted up to 10,000 each."
    return create_model("StateCounts", __base__=ResponseBody, __doc__=text, **fields)


class RunMark(ResponseBody):
    """A run and its state."""

    id: str
    state: RunState


class Cancelled(ResponseBody):
    """`requested`: a worker is executing the run and has been asked to stop."""

    id: str
    outcome: Cancellation


@routes.get("", READ, returns=LINE.page("RunPage"))
async def list_(visit: Visiting, q: QueryText = "", size: Size = 50, cursor: Cursor = None) -> Response:
    """List runs that match a query, newest first."""
    found = await visit.runs.list(q, size=at_most(size, visit), cursor=cursor)
    return page(LINE.views(found.runs), found.next_cursor)


@routes.get("/count", READ, returns=COUNT.model)
async def count(runs: CallersRuns, q: QueryText = "") -> Response:
    """Count runs that match a query, up to 10,000."""
    return answer(COUNT.view(await runs.count(q)))


@routes.get("/counts", READ, returns=_state_counts())
async def counts(runs: CallersRuns) -> Response:
    """Count runs by state, up to 10,000 each."""
    found = await runs.counts()
    return answer({state: COUNT.view(number) for state, number in found.items()})


@routes.get("/{id}", READ, returns=RUN.model)
async def get(runs: CallersRuns, run_id: RunId) -> Response:
    """Get a run with its input and result, redacted."""
    return answer(RUN.view(await runs.view(run_id)))


@routes.get("/{id}/steps", READ, returns=STEP.page("StepList"))
async def steps(runs: CallersRuns, run_id: RunId) -> Response:
    """List the steps of a run with their retry policies and results."""
    return page(STEP.views(await runs.steps(run_id)), None)


@routes.get("/{id}/attempts", READ, returns=ATTEMPTS)
async def attempts(runs: CallersRuns, run_id: RunId) -> Response:
    """List the attempts of all steps, oldest first."""
    return page(ATTEMPT.views(await runs.attempts(run_id)), None)


@routes.get("/{id}/events", READ, returns=TIMELINE_EVENT.page("TimelineEventList"))
async def events(runs: CallersRuns, run_id: RunId) -> Response:
    """List the events of a run, oldest first."""
    return page(TIMELINE_EVENT.views(await runs.events(run_id)), None)


@routes.post("/{id}/cancel", OPERATE, responses={200: {"model": Cancelled}, 202: {"model": Cancelled}})
async def cancel(runs: CallersRuns, run_id: RunId, body: Reasoned | None = None) -> Response:
    """Cancel a run. 202: a worker is executing it and has been asked to stop."""
    outcome = await runs.cancel(run_id, reason=reason_of(body))
    if outcome is Cancellation.ENDED:
        detail = f"the run {run_id} has already finished"
        raise ProblemError(409, "wrong_state", detail, hint="check its current state")
    return answer({"id": run_id, "outcome": outcome}, 202 if outcome is Cancellation.REQUESTED else 200)


async def _owner(visit: RequestContext, run_id: str) -> str | None:
    """Return the owner of a run, or None; also None if there is no such run."""
    try:
        return await visit.runs.owner(run_id)
    except NotFoundError:
        return None


@routes.post("/{id}/retry", RETRY, status_code=202, returns=RunMark)
@jobs.post("/{id}/retry", RETRY, status_code=202, returns=RunMark)
async def retry(
    visit: Visiting, failures: CallersFailures, run_id: RunId, body: Reasoned | None = None
) -> Response:
    """Retry a failed run from the step where it stopped. The owner of the run may, too."""
    if not may_retry(visit.principal, await _owner(visit, run_id)):
        raise forbidden(visit.principal, Permission.RETRY)
    await failures.replay_run(run_id, reason=reason_of(body))
    state = await visit.app.run(run_id, visit.org).state()
    return answer({"id": run_id, "state": state}, 202, {"Location": f"{PREFIX}/{run_id}"})
