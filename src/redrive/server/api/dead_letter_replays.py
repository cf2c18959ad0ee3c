"""Replaying one dead letter (W9). It is begun here, and executed by a worker."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from redrive.failures.service import Failures
from redrive.model.replay import Replay
from redrive.policy.access import Permission
from redrive.policy.override import override_from_json
from redrive.server.answer import answer
from redrive.server.api.dead_letters import ALIASES, PREFIX
from redrive.server.api.parameter import Id
from redrive.server.api.shape.dead_letter_change import ReplayRequest
from redrive.server.api.shape.replay import ReplayShape
from redrive.server.api.view.replay import replay_view
from redrive.server.request_context import AtDesk
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("dead_letters", PREFIX)
workflow_dlq = Routes("workflow_dlq", ALIASES[0])
"""The spelling that others know, and the documents name."""

OPERATE = may(Permission.OPERATE)
_REPLAY: Any = {"status_code": 202, "responses": {202: {"model": ReplayShape}}}


@routes.post("/{id}/replay", OPERATE, **_REPLAY)
@workflow_dlq.post("/{id}/replay", OPERATE, **_REPLAY)
async def replay(desk: AtDesk, letter_id: Id, body: ReplayRequest | None = None) -> Response:
    """Execute its work again: the failed step alone, or the run from there to its end."""
    begun = await _begin(desk, letter_id, ReplayRequest() if body is None else body)
    return answer(replay_view(begun), 202, {"Location": f"/api/v1/replays/{begun.id}"})


async def _begin(desk: Failures, letter_id: str, body: ReplayRequest) -> Replay:
    policy = body.override_retry_policy
    edited: Any = {"payload": body.payload} if "payload" in body.model_fields_set else {}
    return await desk.replay(
        letter_id,
        body.mode,
        from_step=body.from_step if body.from_step_index is None else body.from_step_index,
        retry=None if policy is None else override_from_json(policy),
        reason=body.reason,
        **edited,
    )
