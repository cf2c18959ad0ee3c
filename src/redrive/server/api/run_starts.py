"""Starts of runs: one, or many of the same task or workflow. Workers execute them, never a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from redrive.asgi.http import header_values
from redrive.engine.enqueue import (
    MAX_KEY_LENGTH,
    MAX_PRIORITY,
    MAX_START_DELAY_SECONDS,
    MAX_TAGS,
    StartOptions,
)
from redrive.engine.task import MAX_NAME_LENGTH
from redrive.errors import InvalidKeyError, NotFoundError
from redrive.model.run import RunState
from redrive.policy.access import Permission
from redrive.policy.credential import digest
from redrive.policy.idempotency_key import key_in_header
from redrive.policy.payload_edit import reject_marks
from redrive.policy.user_text import MAX_WORD_LENGTH
from redrive.server.access_control import may
from redrive.server.answer import answer
from redrive.server.api.request import RequestBody, Timestamp
from redrive.server.api.resource import ResponseBody
from redrive.server.api.runs import ALIASES, PREFIX, RunMark
from redrive.server.problem import ProblemError
from redrive.server.request_context import RequestContext, Visiting
from redrive.server.route import Routes

routes = Routes("runs", PREFIX, ALIASES)
START, START_WITH_KEY = may(Permission.START), may(Permission.START, own_key=True)

MAX_RUNS = 1_000

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]
Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY_LENGTH)]
Tag = Annotated[str, Field(min_length=1, max_length=MAX_WORD_LENGTH)]


class Options(RequestBody):
    """`work` names a task or a workflow. It starts immediately, after `delay_seconds`, or at `at`."""

    work: Name
    priority: Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = 0
    delay_seconds: Annotated[float, Field(ge=0, le=MAX_START_DELAY_SECONDS, allow_inf_nan=False)] = 0.0
    at: Timestamp | None = None
    queue: Annotated[Name | None, Field(description="Overrides the queue of the first task")] = None
    correlation_id: Key | None = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = Field(default_factory=list)
    metadata: Annotated[dict[str, Any] | None, Field(max_length=1_000)] = None
    owner: Annotated[Key | None, Field(description="The user who may retry it; by default the caller")] = None
    order_key: Annotated[
        Key | None, Field(description="Runs with the same key are executed one at a time, in order")
    ] = None
    after_failure: Annotated[
        Literal["wait", "proceed"] | None,
        Field(description="What later runs of the order key do when this run becomes a dead letter: `wait`"),
    ] = None


class StartRequest(Options):
    payload: Any = None


class StartManyRequest(Options):
    """Starts all runs or none. `keys` are idempotency keys, one per payload."""

    payloads: Annotated[list[Any], Field(min_length=1, max_length=MAX_RUNS)]
    keys: Annotated[list[Key] | None, Field(max_length=MAX_RUNS)] = None


class Started(RunMark):
    """`existed`: a run with the same key was started before."""

    existed: bool


class StartedOne(ResponseBody):
    id: str
    existed: bool


class StartedMany(ResponseBody):
    """The runs, in the order of the payloads."""

    items: list[StartedOne]


@routes.post("", START_WITH_KEY, status_code=202, returns=Started)
async def start(request: Request, visit: Visiting, body: StartRequest) -> Response:
    """Start a run. With an Idempotency-Key, repeated requests return the same run."""
    reject_marks(body.payload)
    options = _options(visit, body, _key_of(request))
    run = await visit.app.start(body.work, body.payload, **options)
    state = await run.state() if run.existed else RunState.PENDING
    headers = {"Location": f"{PREFIX}/{run.id}", **({"Idempotency-Replayed": "true"} if run.existed else {})}
    return answer({"id": run.id, "state": state, "existed": run.existed}, 202, headers)


@routes.post("/many", START, status_code=202, returns=StartedMany)
async def start_many(request: Request, visit: Visiting, body: StartManyRequest) -> Response:
    """Start many runs of the same task or workflow, all or none."""
    reject_marks(body.payloads)
    keys = _keys_of(request, visit, len(body.payloads)) if body.keys is None else body.keys
    runs = await visit.app.start_many(body.work, body.payloads, keys=keys, **_options(visit, body))
    return answer({"items": [{"id": run.id, "existed": run.existed} for run in runs]}, 202)


def _options(visit: RequestContext, body: Options, key: str | None = None) -> StartOptions:
    _check_names(visit, body)
    options: StartOptions = {
        "org": visit.org,
        "key": key,
        "priority": body.priority,
        "delay": body.delay_seconds,
        "at": body.at,
        "queue": body.queue,
        "correlation_id": body.correlation_id,
        "tags": body.tags,
        "metadata": body.metadata,
        "owner": body.owner or visit.principal.name,
        "order_key": body.order_key,
    }
    if body.after_failure is not None:
        options["after_failure"] = body.after_failure
    return options


def _check_names(visit: RequestContext, body: Options) -> None:
    registry = visit.parts.registry
    _check_name("unknown_work", registry.workflow, body.work)
    if body.queue is not None:
        _check_name("unknown_queue", registry.queue, body.queue)


def _check_name(code: str, look_up: Callable[[str], object], name: str) -> None:
    """Reject an unknown name with 422: a 404 is for resources that the address names."""
    try:
        look_up(name)
    except NotFoundError as error:
        hint = "check the spelling; the server knows the tasks, workflows and queues of its application"
        raise ProblemError(422, code, str(error), hint=hint) from None


def _keys_of(request: Request, visit: RequestContext, number: int) -> list[str] | None:
    """Derive the keys of the runs from the key of the request.

    If the server is killed before it stores the response, a repeated request finds the same runs.
    """
    key = _key_of(request)
    if key is None:
        return None
    principal = visit.principal
    mark = digest(f"{principal.kind}:{principal.user_id or principal.id}:{key}")[:32]
    return [f"many:{mark}:{index}" for index in range(number)]


def _key_of(request: Request) -> str | None:
    values = header_values(request.scope, b"idempotency-key")
    try:
        return key_in_header(values) if values else None
    except InvalidKeyError as error:
        hint = 'send it as Idempotency-Key: "order-7", with your own value'
        raise ProblemError(400, "key_malformed", str(error), hint=hint) from None
