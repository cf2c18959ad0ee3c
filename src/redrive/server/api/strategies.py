"""Strategies: which failures of the caller's organization, or of one of its queues, become dead letters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from redrive.failures.external_tasks import is_stand_alone
from redrive.failures.strategies import StrategyView
from redrive.policy.access import Permission
from redrive.policy.triage import Strategy
from redrive.server.access_control import may
from redrive.server.answer import answer, page
from redrive.server.api.request import Reason, RequestBody
from redrive.server.api.resource import Resource
from redrive.server.request_context import CallersFailures, Visiting
from redrive.server.route import Routes

routes = Routes("strategies", "/api/v1/strategies")
READ, MANAGE = may(Permission.READ), may(Permission.MANAGE)

STRATEGY = Resource(
    StrategyView,
    "StrategyShape",
    description=(
        "Which failures become dead letters. `queue` is null for all queues without a strategy of their own. "
        "`changed_by` is null if the strategy comes from the settings."
    ),
)


class StrategyChange(RequestBody):
    """Without `queue`, the change applies to all queues that have no strategy of their own."""

    strategy: Annotated[
        Strategy | None,
        Field(
            strict=False, description="null removes the stored strategy, so that the default applies again"
        ),
    ]
    queue: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    reason: Reason = ""


@routes.get("", READ, returns=STRATEGY.page("StrategyList"))
async def list_(failures: CallersFailures) -> Response:
    """List the strategy of your organization, then those of queues that have their own."""
    return page(STRATEGY.views(await failures.strategies.list()), None)


@routes.put("", MANAGE, returns=STRATEGY.model)
async def change(visit: Visiting, body: StrategyChange) -> Response:
    """Change which failures become dead letters. All workers follow within seconds."""
    strategies = visit.failures.strategies
    stored = {view.queue for view in await strategies.list()}
    if body.queue is not None and body.queue not in stored and not is_stand_alone(body.queue):
        await visit.queues.view(body.queue)  # an unknown name is an error: nothing would follow it
    changed = await strategies.change(body.strategy, queue=body.queue, reason=body.reason)
    return answer(STRATEGY.view(changed))
