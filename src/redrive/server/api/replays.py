"""Replays of one dead letter: a request starts one, a worker executes it."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from starlette.responses import Response

from redrive.errors import InvalidValueError
from redrive.model.replay import Mode, Replay
from redrive.policy.access import Permission
from redrive.policy.alteration import override_from_json
from redrive.server.answer import answer
from redrive.server.api.request import Asked, Id, Reason
from redrive.server.api.resource import Resource
from redrive.server.request_context import AtDesk
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("replays", "/api/v1/replays")
dead_letter_routes = Routes("dead_letters", "/api/v1/dead-letters")
workflow_dlq = Routes("workflow_dlq", "/api/v1/workflow-dlq")
"""The spelling that other systems use; the document names it too."""

OPERATE = may(Permission.OPERATE)

Policy = Annotated[
    dict[str, Any] | None,
    Field(
        max_length=20,
        description=(
            "For this replay only: max_retries, base_delay_ms, factor, max_delay_ms, jitter_ratio, each of "
            "which may be left out; or a whole policy as dead letters show it"
        ),
        examples=[{"max_retries": 5, "base_delay_ms": 1000}],
    ),
]


class ReplayRequest(Asked):
    """STEP_ONLY executes the failed step alone; FROM_STEP lets the run go on to its end.

    An earlier step to go back to is named by its index or its name. A payload takes the place of what that
    step was given; the original is kept, and a reason is needed.
    """

    mode: Annotated[Mode, Field(strict=False)] = Mode.FROM_STEP
    from_step_index: Annotated[int | None, Field(ge=0, le=100_000)] = None
    from_step: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    override_retry_policy: Policy = None
    payload: Any = None
    reason: Reason = ""

    @model_validator(mode="after")
    def _one_step(self) -> Self:
        if self.from_step_index is not None and self.from_step is not None:
            raise InvalidValueError("name the step by from_step_index or by from_step, not by both")
        return self


REPLAY = Resource(
    Replay,
    "ReplayShape",
    description=(
        "`edit` is what was changed in the payload, redacted; `number` is which replay of its run it is."
    ),
    hidden=("org",),
    renamed={
        "letter_id": "dead_letter_id",
        "from_step": "from_step_index",
        "policy_override": "override_retry_policy",
    },
)

_STARTED: Any = {"status_code": 202, "responses": {202: {"model": REPLAY.model}}}


@dead_letter_routes.post("/{id}/replay", OPERATE, **_STARTED)
@workflow_dlq.post("/{id}/replay", OPERATE, **_STARTED)
async def replay(desk: AtDesk, letter_id: Id, body: ReplayRequest | None = None) -> Response:
    """Execute its work again: the failed step alone, or the run from there to its end."""
    asked = body or ReplayRequest()
    policy = asked.override_retry_policy
    edited: Any = {"payload": asked.payload} if "payload" in asked.model_fields_set else {}
    started = await desk.replay(
        letter_id,
        asked.mode,
        from_step=asked.from_step if asked.from_step_index is None else asked.from_step_index,
        retry=None if policy is None else override_from_json(policy),
        reason=asked.reason,
        **edited,
    )
    return answer(REPLAY.view(started), 202, {"Location": f"/api/v1/replays/{started.id}"})


@routes.get("/{id}", may(Permission.READ), responses={200: {"model": REPLAY.model}})
async def get(desk: AtDesk, replay_id: Id) -> Response:
    """One replay."""
    return answer(REPLAY.view(await desk.replays.get(replay_id)))
