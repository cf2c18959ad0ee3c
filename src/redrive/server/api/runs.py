"""Runs: starting them, finding them, reading the story of one. Workers execute them, no request does (G8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from redrive.asgi.types import header_values
from redrive.engine.enqueue import StartOptions
from redrive.errors import InvalidKeyError, NotFoundError
from redrive.model.run import Cancellation, RunState
from redrive.policy.access import Permission
from redrive.policy.credential import digest
from redrive.policy.idempotency_request import key_in_header
from redrive.server.answer import answer, page
from redrive.server.api.parameter import Cursor, Id, QueryText, Size, at_most
from redrive.server.api.shape.attempt import AttemptList
from redrive.server.api.shape.base import Reasoned, reason_of
from redrive.server.api.shape.dead_letter import CountShape
from redrive.server.api.shape.run import (
    Cancelled,
    HappeningList,
    RunMark,
    RunPage,
    RunShape,
    Started,
    StartedMany,
    StateCounts,
    StepList,
)
from redrive.server.api.shape.run_start import Options, StartManyRequest, StartRequest
from redrive.server.api.view.attempt import attempt_view
from redrive.server.api.view.run import happening_view, line_view, run_view, step_view
from redrive.server.problem import ProblemError
from redrive.server.request_context import AtDesk, RequestContext, Runs, Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

PREFIX = "/api/v1/runs"

routes = Routes("runs", PREFIX, ("/api/v1/jobs",))
READ, START, OPERATE = may(Permission.READ), may(Permission.START), may(Permission.OPERATE)
START_WITH_KEY = may(Permission.START, own_key=True)

RETRIED: Any = {"status_code": 202, "responses": {202: {"model": RunMark}}}


@routes.post("", START_WITH_KEY, status_code=202, responses={202: {"model": Started}})
async def start(request: Request, visit: Visiting, body: StartRequest) -> Response:
    """Start a run. An Idempotency-Key becomes its own: the same key is the same run."""
    options = _options(visit, body, _key_of(request))
    run = await visit.app.start(body.work, body.payload, **options)
    state = await run.state() if run.existed else RunState.PENDING
    headers = {"Location": f"{PREFIX}/{run.id}", **({"Idempotency-Replayed": "true"} if run.existed else {})}
    return answer({"id": run.id, "state": state, "existed": run.existed}, 202, headers)


@routes.post("/many", START, status_code=202, responses={202: {"model": StartedMany}})
async def start_many(request: Request, visit: Visiting, body: StartManyRequest) -> Response:
    """Start many runs of the same work, all of them or none."""
    keys = _keys_of(request, visit, len(body.payloads)) if body.keys is None else body.keys
    runs = await visit.app.start_many(body.work, body.payloads, keys=keys, **_options(visit, body))
    return answer({"items": [{"id": each.id, "existed": each.existed} for each in runs]}, 202)


@routes.get("", READ, responses={200: {"model": RunPage}})
async def list_(visit: Visiting, q: QueryText = "", size: Size = 50, cursor: Cursor = None) -> Response:
    """Those that fulfil a query, the newest first."""
    found = await (await visit.runs()).list(q, size=at_most(size, visit), cursor=cursor)
    return page([line_view(each) for each in found.runs], found.next_cursor)


@routes.get("/count", READ, responses={200: {"model": CountShape}})
async def count(runs: Runs, q: QueryText = "") -> Response:
    """How many fulfil a query; counted up to 10,000."""
    return answer((await runs.count(q))._asdict())


@routes.get("/counts", READ, responses={200: {"model": StateCounts}})
async def counts(runs: Runs) -> Response:
    """How many there are in each state; counted up to 10,000 each."""
    found = await runs.counts()
    return answer({state: each._asdict() for state, each in found.items()})


@routes.get("/{id}", READ, responses={200: {"model": RunShape}})
async def get(runs: Runs, run_id: Id) -> Response:
    """One run, with what it was given and has given, redacted."""
    return answer(run_view(await runs.get(run_id)))


@routes.get("/{id}/steps", READ, responses={200: {"model": StepList}})
async def steps(runs: Runs, run_id: Id) -> Response:
    """Its steps, each with its retry policy and what came of it."""
    return page([step_view(each) for each in await runs.steps(run_id)], None)


@routes.get("/{id}/attempts", READ, responses={200: {"model": AttemptList}})
async def attempts(runs: Runs, run_id: Id) -> Response:
    """Every execution of its steps, in order."""
    return page([attempt_view(each) for each in await runs.attempts(run_id)], None)


@routes.get("/{id}/events", READ, responses={200: {"model": HappeningList}})
async def events(runs: Runs, run_id: Id) -> Response:
    """What has happened to it, in order of time."""
    return page([happening_view(each) for each in await runs.events(run_id)], None)


@routes.post("/{id}/cancel", OPERATE, responses={200: {"model": Cancelled}, 202: {"model": Cancelled}})
async def cancel(runs: Runs, run_id: Id, body: Reasoned | None = None) -> Response:
    """End it before its time. 202: it is being executed, and its worker is told."""
    outcome = await runs.cancel(run_id, reason=reason_of(body))
    if outcome is Cancellation.ENDED:
        detail = f"the run {run_id} has ended already"
        raise ProblemError(409, "wrong_state", detail, hint="look at its present state first")
    return answer({"id": run_id, "outcome": outcome}, 202 if outcome is Cancellation.REQUESTED else 200)


@routes.post("/{id}/retry", OPERATE, **RETRIED)
async def retry(visit: Visiting, desk: AtDesk, run_id: Id, body: Reasoned | None = None) -> Response:
    """Queue a failed run again where it stopped, while what it works on still exists (P8)."""
    await desk.retry(run_id, reason=reason_of(body))
    state = await visit.app.run(run_id, visit.org).state()
    return answer({"id": run_id, "state": state}, 202, {"Location": f"{PREFIX}/{run_id}"})


def _options(visit: RequestContext, body: Options, key: str | None = None) -> StartOptions:
    _check_names(visit, body)
    return {
        "org": visit.org,
        "key": key,
        "priority": body.priority,
        "delay": body.delay_seconds,
        "at": body.at,
        "queue": body.queue,
        "correlation_id": body.correlation_id,
        "tags": body.tags,
        "metadata": body.metadata,
    }


def _check_names(visit: RequestContext, body: Options) -> None:
    registry = visit.app.registry
    _check_name("unknown_work", registry.workflow, body.work)
    if body.queue is not None:
        _check_name("unknown_queue", registry.queue, body.queue)


def _check_name(code: str, look_up: Callable[[str], object], name: str) -> None:
    """Of a thing that a body names, and not the address, the absence is no 404."""
    try:
        look_up(name)
    except NotFoundError as error:
        hint = "the server knows the work and the queues of the application that it was started with"
        raise ProblemError(422, code, str(error), hint=hint) from None


def _keys_of(request: Request, visit: RequestContext, number: int) -> list[str] | None:
    """Out of that of the request: should the server be killed before the answer is kept, the request is
    executed again, and finds its runs."""
    key = _key_of(request)
    if key is None:
        return None
    principal = visit.principal
    mark = digest(f"{principal.kind}:{principal.user_id or principal.id}:{key}")[:32]
    return [f"many:{mark}:{each}" for each in range(number)]


def _key_of(request: Request) -> str | None:
    values = header_values(request.scope, b"idempotency-key")
    try:
        return key_in_header(values) if values else None
    except InvalidKeyError as error:
        hint = 'send it as Idempotency-Key: "order-7", with a value of your own'
        raise ProblemError(400, "key_malformed", str(error), hint=hint) from None
