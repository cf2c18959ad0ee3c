"""Queues and workers, which all organizations share: list them, and pause and resume queues."""

from __future__ import annotations

from starlette.responses import Response

from redrive.engine.queues import Depths, QueueView, WorkerView
from redrive.model.worker import BlockingStep
from redrive.policy.access import Permission
from redrive.server.access_control import may
from redrive.server.answer import answer, page
from redrive.server.api.request import Name, Reasoned, reason_of
from redrive.server.api.resource import Resource
from redrive.server.request_context import RequestContext, Visiting
from redrive.server.route import Routes
from redrive.words.state import status

routes = Routes("queues", "/api/v1/queues")
worker_routes = Routes("workers", "/api/v1/workers")
READ, CONTROL = may(Permission.READ), may(Permission.CONTROL, home=True)

DEPTHS = Resource(Depths, "DepthsShape")
BLOCKING_STEP = Resource(BlockingStep, "BlockingStepShape")
QUEUE = Resource(
    QueueView,
    "QueueShape",
    description="`own` counts the runs of your organization, `overall` those of all organizations.",
)


def _worker_status(worker: WorkerView) -> str:
    return status(worker.condition, "worker")


WORKER = Resource(
    WorkerView,
    "WorkerShape",
    description="A worker. It sends a heartbeat every 10 s; if several are missing, it is dead.",
    status=_worker_status,
)


@routes.get("", READ, returns=QUEUE.page("QueueList"))
async def list_(visit: Visiting) -> Response:
    """List queues and their depths. Only the organization `default` sees those of all organizations."""
    return page(QUEUE.views(await visit.queues.list()), None)


@routes.get("/{name:path}", READ, returns=QUEUE.model)
async def get(visit: Visiting, name: Name) -> Response:
    """Get a queue."""
    return await _answer(visit, name)


@routes.post("/{name:path}/pause", CONTROL, returns=QUEUE.model)
async def pause(visit: Visiting, name: Name, body: Reasoned | None = None) -> Response:
    """Pause a queue: workers start no more of its runs. Running attempts finish."""
    await visit.queues.pause(name, reason=reason_of(body))
    return await _answer(visit, name)


@routes.post("/{name:path}/resume", CONTROL, returns=QUEUE.model)
async def resume(visit: Visiting, name: Name) -> Response:
    """Resume a paused queue."""
    await visit.queues.resume(name)
    return await _answer(visit, name)


@worker_routes.get("", READ, returns=WORKER.page("WorkerList"))
async def _list(visit: Visiting) -> Response:
    """List all workers. Only the organization `default` sees where they run."""
    return page(WORKER.views(await visit.workers.list()), None)


async def _answer(visit: RequestContext, name: str) -> Response:
    return answer(QUEUE.view(await visit.queues.view(name)))
