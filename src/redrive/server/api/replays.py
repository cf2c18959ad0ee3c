"""Replays of one dead letter, and bulk replays, which are planned before they start.

A request starts a replay; a worker executes it.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from fastapi import Query
from pydantic import Field, model_validator
from starlette.responses import Response

from redrive.errors import InvalidValueError
from redrive.failures.bulk_replay_planner import plan_of
from redrive.model.operation import MAX_ITEMS, Drift, Drifting, OperationReport, Plan, ReplayOperation
from redrive.model.replay import Mode, Replay, ReplayPreview, ReplayState, ReplayStep
from redrive.policy.access import Permission
from redrive.policy.json_path import MAX_PATH_LENGTH
from redrive.policy.payload_edit import MAX_FIELDS
from redrive.policy.rollout import RolloutOptions, RolloutPlan
from redrive.server.access_control import may
from redrive.server.answer import answer, page
from redrive.server.api.request import (
    Cursor,
    Ids,
    LetterId,
    OperationId,
    Reason,
    Reasoned,
    ReplayId,
    RequestBody,
    Size,
    at_most,
    reason_of,
)
from redrive.server.api.resource import Resource
from redrive.server.request_context import CallersFailures, Visiting
from redrive.server.route import Routes

routes = Routes("replays", "/api/v1/replays")
dead_letter_routes = Routes("dead_letters", "/api/v1/dead-letters")
workflow_dlq = Routes("workflow_dlq", "/api/v1/workflow-dlq")
"""A path that other systems use. It is part of the OpenAPI document."""

operation_routes = Routes("operations", "/api/v1/operations")

READ, RETRY = may(Permission.READ), may(Permission.RETRY)

Policy = Annotated[
    dict[str, Any] | None,
    Field(
        max_length=20,
        description=(
            "Changes of the step's retry policy for this replay only: any of max_retries, base_delay_ms, "
            "factor, max_delay_ms and jitter_ratio; or a complete policy, as dead letters show it"
        ),
        examples=[{"max_retries": 5, "base_delay_ms": 1000}],
    ),
]
ItemNumber = Annotated[int, Field(ge=1, le=MAX_ITEMS)]


class ReplayRequest(RequestBody):
    """STEP_ONLY executes only the failed step; FROM_STEP continues the run to its end.

    To go back to an earlier step, name it by index or name. `payload` replaces the input of that step;
    `set_fields` and `remove_fields` change only some of its fields, by paths such as items[2].price. This
    requires a reason, and the original is kept. A redaction mark such as [redacted:card] leaves the stored
    value at its path; at a path where the stored payload does not have it, the request fails.
    """

    mode: Annotated[Mode, Field(strict=False)] = Mode.FROM_STEP
    from_step_index: Annotated[int | None, Field(ge=0, le=100_000)] = None
    from_step: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    override_retry_policy: Policy = None
    payload: Any = None
    set_fields: Annotated[
        dict[str, Any],
        Field(max_length=MAX_FIELDS, examples=[{"address.country": "DE", "items[0].price": 5}]),
    ] = Field(default_factory=dict)
    remove_fields: Annotated[
        list[Annotated[str, Field(max_length=MAX_PATH_LENGTH)]],
        Field(max_length=MAX_FIELDS, examples=[["items[2]"]]),
    ] = Field(default_factory=list)
    reason: Reason = ""

    @model_validator(mode="after")
    def _one_step(self) -> Self:
        if self.from_step_index is not None and self.from_step is not None:
            raise InvalidValueError("pass from_step_index or from_step, not both")
        return self

    @property
    def place(self) -> dict[str, Any]:
        """The mode, the step and the payload change, as `failures.replay` takes them."""
        return {
            "mode": self.mode,
            "from_step": self.from_step if self.from_step_index is None else self.from_step_index,
            "payload": self.payload if "payload" in self.model_fields_set else ...,
            "set_fields": self.set_fields,
            "remove_fields": self.remove_fields,
        }


REPLAY = Resource(
    Replay,
    "ReplayShape",
    description=(
        "A replay of a dead letter. `edit` is the change of the payload, redacted; `number` counts the "
        "replays of the run."
    ),
    hidden=("org",),
    renamed={
        "letter_id": "dead_letter_id",
        "from_step": "from_step_index",
        "policy_override": "override_retry_policy",
    },
)

STEP = Resource(ReplayStep, "ReplayStepShape")
PREVIEW = Resource(
    ReplayPreview,
    "ReplayPreviewShape",
    renamed={"letter_id": "dead_letter_id", "from_step": "from_step_index"},
)


@dead_letter_routes.post("/{id}/replay", RETRY, status_code=202, returns=REPLAY.model)
@workflow_dlq.post("/{id}/replay", RETRY, status_code=202, returns=REPLAY.model)
async def replay(
    failures: CallersFailures, letter_id: LetterId, body: ReplayRequest | None = None
) -> Response:
    """Replay a dead letter: only the failed step, or the run from there to its end."""
    asked = body or ReplayRequest()
    started = await failures.replay(
        letter_id, retry=asked.override_retry_policy, reason=asked.reason, **asked.place
    )
    return answer(REPLAY.view(started), 202, {"Location": f"/api/v1/replays/{started.id}"})


@dead_letter_routes.post("/{id}/replay/preview", RETRY, returns=PREVIEW.model)
async def preview(
    failures: CallersFailures, letter_id: LetterId, body: ReplayRequest | None = None
) -> Response:
    """Describe what a replay would do: its steps, and the changes of the payload. Nothing is started."""
    asked = body or ReplayRequest()
    retry = asked.override_retry_policy
    return answer(PREVIEW.view(await failures.replays.preview(letter_id, retry=retry, **asked.place)))


@routes.get("/{id}", READ, returns=REPLAY.model)
async def _get(failures: CallersFailures, replay_id: ReplayId) -> Response:
    """Get a replay."""
    return answer(REPLAY.view(await failures.replays.view(replay_id)))


# Bulk replays


class RolloutRequest(RequestBody):
    """`expect` is the number of dead letters to replay. If it does not match, no plan is created."""

    override_retry_policy: Policy = None
    exclude_unsafe: bool = False
    expect: Annotated[int | None, Field(ge=0, le=MAX_ITEMS)] = None
    reason: Reason = ""
    canary: Annotated[int, Field(ge=0, le=MAX_ITEMS)] = 10
    rate: Annotated[float | None, Field(ge=0.001, le=100_000, allow_inf_nan=False)] = None
    failure_rate: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.2
    minimum: ItemNumber = 10
    same_failures: ItemNumber | None = 5
    stop_on_breaker: bool = True

    @property
    def options(self) -> dict[str, Any]:
        """The fields, as `plans.create` takes them."""
        given = self.model_dump()
        given["retry"] = given.pop("override_retry_policy")
        return given


class PlanRequest(RolloutRequest):
    """Select dead letters by one of `query`, `ids` and `group`, and set the rollout.

    `expect` is the number of dead letters to replay. If it does not match, no plan is created.
    """

    query: Annotated[str | None, Field(max_length=2000)] = None
    ids: Ids | None = None
    group: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    mode: Annotated[Mode, Field(strict=False)] = Mode.FROM_STEP


class Start(RequestBody):
    """With `accept_drift`, dead letters that changed since the plan are skipped; otherwise they are an error.

    If the number of dead letters to replay is not `expect`, nothing starts.
    """

    accept_drift: bool = False
    expect: Annotated[int | None, Field(ge=0, le=MAX_ITEMS)] = None


def _options(operation: ReplayOperation) -> RolloutOptions:
    return RolloutPlan.from_json(operation.options).options


OPTIONS = Resource(RolloutOptions, "OptionsShape")
PLAN = Resource(
    Plan,
    "PlanShape",
    description="What the replay will do. The numbers are fixed when the plan is created.",
    types={"mode": Mode},
)
OPERATION = Resource(
    ReplayOperation,
    "OperationShape",
    description="A bulk replay. `released` items were started so far.",
    hidden=("org",),
    renamed={"policy_override": "override_retry_policy"},
    computed={"options": _options, "plan": plan_of},
)
REPORT = Resource(
    OperationReport,
    "ReportShape",
    description=(
        "The results so far: items by state, failed ones by fingerprint, refused and skipped ones by reason."
    ),
    hidden=("plan",),
    properties=("failure_rate", "seconds"),
)
DRIFT = Resource(Drift, "DriftShape")
DRIFTING = Resource(Drifting, "DriftingShape")


@operation_routes.post("", may(Permission.PLAN), status_code=201, returns=OPERATION.model)
async def plan(visit: Visiting, failures: CallersFailures, body: PlanRequest) -> Response:
    """Plan a bulk replay: fix the selection and describe what will happen, without starting anything."""
    given = body.options
    if body.ids is not None:
        given["ids"] = await visit.ids.complete_letters(body.ids)
    made = (await failures.plans.create(**given)).operation_id
    return answer(
        OPERATION.view(await failures.plans.view(made)), 201, {"Location": f"/api/v1/operations/{made}"}
    )


@operation_routes.get("", READ, returns=OPERATION.page("OperationPage"))
async def list_(visit: Visiting, size: Size = 50, cursor: Cursor = None) -> Response:
    """List bulk replays, newest first."""
    found = await visit.failures.plans.list(size=at_most(size, visit), cursor=cursor)
    return page(OPERATION.views(found.operations), found.next_cursor)


@operation_routes.get("/{id}", READ, returns=OPERATION.model)
async def get(failures: CallersFailures, operation_id: OperationId) -> Response:
    """Get a bulk replay and its plan."""
    return answer(OPERATION.view(await failures.plans.view(operation_id)))


@operation_routes.get("/{id}/items", READ, returns=REPLAY.page("ItemPage"))
async def items(
    visit: Visiting,
    operation_id: OperationId,
    state: Annotated[ReplayState | None, Query()] = None,
    size: Size = 50,
    cursor: Cursor = None,
) -> Response:
    """List the items of a bulk replay in start order."""
    operations = visit.failures.plans
    found = await operations.items(operation_id, state=state, size=at_most(size, visit), cursor=cursor)
    return page(REPLAY.views(found.items), found.next_cursor)


@operation_routes.get("/{id}/drift", READ, returns=DRIFTING.model)
async def drift(failures: CallersFailures, operation_id: OperationId) -> Response:
    """List what changed since the plan, and the number of dead letters that would still be replayed."""
    return answer(DRIFTING.view(await failures.plans.drift(operation_id)))


@operation_routes.get("/{id}/report", READ, returns=REPORT.model)
async def report(failures: CallersFailures, operation_id: OperationId) -> Response:
    """Get the results of a bulk replay so far."""
    return answer(REPORT.view(await failures.plans.report(operation_id)))


@operation_routes.post("/{id}/start", RETRY, status_code=202, returns=OPERATION.model)
async def start(failures: CallersFailures, operation_id: OperationId, body: Start | None = None) -> Response:
    """Start a planned bulk replay. Fails if dead letters changed since, unless they may be skipped."""
    asked = body or Start()
    started = await failures.plans.start(operation_id, accept_drift=asked.accept_drift, expect=asked.expect)
    return answer(OPERATION.view(started), 202)


@operation_routes.post("/{id}/pause", RETRY, returns=OPERATION.model)
async def pause(
    failures: CallersFailures, operation_id: OperationId, body: Reasoned | None = None
) -> Response:
    """Pause a bulk replay: no more items start until it is resumed."""
    return answer(OPERATION.view(await failures.plans.pause(operation_id, reason_of(body))))


@operation_routes.post("/{id}/resume", RETRY, returns=OPERATION.model)
async def resume(
    failures: CallersFailures, operation_id: OperationId, body: Reasoned | None = None
) -> Response:
    """Resume a bulk replay. After an automatic stop, it starts with a canary again."""
    return answer(OPERATION.view(await failures.plans.resume(operation_id, reason_of(body))))


@operation_routes.post("/{id}/cancel", RETRY, returns=OPERATION.model)
async def cancel(
    failures: CallersFailures, operation_id: OperationId, body: Reasoned | None = None
) -> Response:
    """Cancel a bulk replay permanently. Running items finish."""
    return answer(OPERATION.view(await failures.plans.cancel(operation_id, reason_of(body))))
