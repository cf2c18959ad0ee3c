"""Replays and bulk replays, as answers have them."""

from __future__ import annotations

from typing import Any

from redrive.failures.planner import plan_of
from redrive.model.operation import Drifting, OperationReport, Plan, ReplayOperation
from redrive.model.replay import Replay
from redrive.server.answer import when
from redrive.server.api.view.stored import decoded, mapping

_TIMES = ("planned_at", "started_at", "released_at", "ramped_at", "ended_at", "updated_at")


def replay_view(replay: Replay) -> dict[str, Any]:
    fields = replay._asdict()
    del fields["org"]
    for name in ("requested_at", "started_at", "ended_at"):
        fields[name] = when(fields[name])
    fields["automatic"] = bool(replay.automatic)
    fields["dead_letter_id"] = fields.pop("letter_id")
    fields["from_step_index"] = fields.pop("from_step")
    fields["override_retry_policy"] = decoded(fields.pop("policy_override"))
    fields["edit"] = decoded(replay.edit)
    return fields


def plan_view(plan: Plan) -> dict[str, Any]:
    return plan.to_json()


def operation_view(operation: ReplayOperation) -> dict[str, Any]:
    fields = operation._asdict()
    del fields["org"]
    for name in _TIMES:
        fields[name] = when(fields[name])
    options = mapping(operation.options)
    fields["options"] = {name: value for name, value in options.items() if name != "pardoned"}
    fields["selection"] = mapping(operation.selection)
    fields["override_retry_policy"] = decoded(fields.pop("policy_override"))
    fields["plan"] = plan_view(plan_of(operation))
    return fields


def drifting_view(drifting: Drifting) -> dict[str, Any]:
    return {**drifting._asdict(), "changes": [each._asdict() for each in drifting.changes]}


def report_view(report: OperationReport) -> dict[str, Any]:
    return {
        "operation": operation_view(report.operation),
        "items": report.items,
        "failures": report.failures,
        "notes": report.notes,
        "first_started_at": when(report.first_started_at),
        "last_ended_at": when(report.last_ended_at),
        "failure_rate": report.failure_rate,
        "seconds": report.seconds,
    }
