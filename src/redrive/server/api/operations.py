"""Bulk replays: planned first, started when the plan still holds, then steered and looked at."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from redrive.model.replay import ReplayState
from redrive.policy.access import Permission
from redrive.policy.override import override_from_json
from redrive.server.answer import answer, page
from redrive.server.api.parameter import Cursor, Id, Size, at_most
from redrive.server.api.shape.base import Reasoned, reason_of
from redrive.server.api.shape.operation import (
    DriftingShape,
    ItemPage,
    OperationPage,
    OperationShape,
    PlanRequest,
    ReportShape,
    Start,
)
from redrive.server.api.view.replay import drifting_view, operation_view, replay_view, report_view
from redrive.server.request_context import AtDesk, Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

PREFIX = "/api/v1/operations"

routes = Routes("operations", PREFIX)
READ, OPERATE = may(Permission.READ), may(Permission.OPERATE)

_OPERATION = {200: {"model": OperationShape}}


@routes.post("", may(Permission.PLAN), status_code=201, responses={201: {"model": OperationShape}})
async def plan(desk: AtDesk, body: PlanRequest) -> Response:
    """Freeze what is to be replayed, and say what will happen; nothing is started."""
    made = (await desk.operations.plan(**_request(body))).operation_id
    return answer(operation_view(await desk.operations.get(made)), 201, {"Location": f"{PREFIX}/{made}"})


@routes.get("", READ, responses={200: {"model": OperationPage}})
async def list_(visit: Visiting, size: Size = 50, cursor: Cursor = None) -> Response:
    """The newest first."""
    found = await (await visit.desk()).operations.list(size=at_most(size, visit), cursor=cursor)
    return page([operation_view(each) for each in found.operations], found.next_cursor)


@routes.get("/{id}", READ, responses=_OPERATION)
async def get(desk: AtDesk, operation_id: Id) -> Response:
    """One bulk replay, with its plan."""
    return answer(operation_view(await desk.operations.get(operation_id)))


@routes.get("/{id}/items", READ, responses={200: {"model": ItemPage}})
async def items(
    visit: Visiting,
    operation_id: Id,
    state: Annotated[ReplayState | None, Query()] = None,
    size: Size = 50,
    cursor: Cursor = None,
) -> Response:
    """Its replays, in the order in which they are begun."""
    operations = (await visit.desk()).operations
    found = await operations.items(operation_id, state=state, size=at_most(size, visit), cursor=cursor)
    return page([replay_view(each) for each in found.items], found.next_cursor)


@routes.get("/{id}/drift", READ, responses={200: {"model": DriftingShape}})
async def drift(desk: AtDesk, operation_id: Id) -> Response:
    """What has changed since it was planned, and how many would be replayed without that."""
    return answer(drifting_view(await desk.operations.drift(operation_id)))


@routes.get("/{id}/report", READ, responses={200: {"model": ReportShape}})
async def report(desk: AtDesk, operation_id: Id) -> Response:
    """What came of it so far."""
    return answer(report_view(await desk.operations.report(operation_id)))


@routes.post("/{id}/start", OPERATE, status_code=202, responses={202: {"model": OperationShape}})
async def start(desk: AtDesk, operation_id: Id, body: Start | None = None) -> Response:
    """Begin what was planned; refused when dead letters have changed since, unless these may be left out."""
    asked = body or Start()
    started = await desk.operations.start(operation_id, accept_drift=asked.accept_drift, expect=asked.expect)
    return answer(operation_view(started), 202)


@routes.post("/{id}/pause", OPERATE, responses=_OPERATION)
async def pause(desk: AtDesk, operation_id: Id, body: Reasoned | None = None) -> Response:
    """Begin nothing more until it is resumed."""
    return answer(operation_view(await desk.operations.pause(operation_id, reason_of(body))))


@routes.post("/{id}/resume", OPERATE, responses=_OPERATION)
async def resume(desk: AtDesk, operation_id: Id, body: Reasoned | None = None) -> Response:
    """Go on; one that has stopped itself begins carefully again."""
    return answer(operation_view(await desk.operations.resume(operation_id, reason_of(body))))


@routes.post("/{id}/cancel", OPERATE, responses=_OPERATION)
async def cancel(desk: AtDesk, operation_id: Id, body: Reasoned | None = None) -> Response:
    """Begin nothing more, for good; what is under way is finished."""
    return answer(operation_view(await desk.operations.cancel(operation_id, reason_of(body))))


def _request(body: PlanRequest) -> Any:
    given = body.model_dump()
    policy = given.pop("override_retry_policy")
    return {**given, "retry": None if policy is None else override_from_json(policy)}
