"""Replays: what came of one."""

from __future__ import annotations

from starlette.responses import Response

from redrive.policy.access import Permission
from redrive.server.answer import answer
from redrive.server.api.parameter import Id
from redrive.server.api.shape.replay import ReplayShape
from redrive.server.api.view.replay import replay_view
from redrive.server.request_context import AtDesk
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("replays", "/api/v1/replays")


@routes.get("/{id}", may(Permission.READ), responses={200: {"model": ReplayShape}})
async def get(desk: AtDesk, replay_id: Id) -> Response:
    """One replay."""
    return answer(replay_view(await desk.replays.get(replay_id)))
