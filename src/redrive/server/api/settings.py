"""Settings: what the server goes by, and where each value comes from."""

from __future__ import annotations

from starlette.responses import Response

from redrive.policy.access import Permission
from redrive.server.answer import page
from redrive.server.api.shape.shared import SettingList
from redrive.server.request_context import Visiting
from redrive.server.route import Routes
from redrive.server.rule import may
from redrive.settings import SETTINGS

routes = Routes("settings", "/api/v1/settings")


@routes.get("", may(Permission.MANAGE, home=True), responses={200: {"model": SettingList}})
async def list_(visit: Visiting) -> Response:
    """All of them, secrets masked."""
    settings = visit.app.settings
    origins = settings.origins()
    told = [each.as_json(getattr(settings, each.name), origins[each.name]) for each in SETTINGS]
    return page(told, None)
