"""Types for annotations: what the methods of an application return. Programs do not construct them."""

from __future__ import annotations

from redrive.engine.breakers import Breakers, BreakerView
from redrive.engine.handle import RunHandle, SyncRunHandle
from redrive.engine.history import History
from redrive.engine.queues import Queues, QueueView, Workers, WorkerView
from redrive.engine.run_view import AttemptView, RunSummary, RunView, StepView
from redrive.engine.runs import RunPage, Runs
from redrive.engine.worker import Worker
from redrive.events.service import Events, EventView, RecordedEvent
from redrive.failures.service import Failures
from redrive.idempotency.decorator import Idempotent
from redrive.identity.members import Members
from redrive.model.dead_letter import DeadLetter, DeadLetterLine
from redrive.model.failure_group import FailureGroup
from redrive.model.operation import OperationReport, Plan, ReplayOperation
from redrive.model.replay import Replay
from redrive.model.stream import ProjectionRecord
from redrive.policy.verdict import ReplayVerdict

__all__ = [
    "AttemptView",
    "BreakerView",
    "Breakers",
    "DeadLetter",
    "DeadLetterLine",
    "EventView",
    "Events",
    "FailureGroup",
    "Failures",
    "History",
    "Idempotent",
    "Members",
    "OperationReport",
    "Plan",
    "ProjectionRecord",
    "QueueView",
    "Queues",
    "RecordedEvent",
    "Replay",
    "ReplayOperation",
    "ReplayVerdict",
    "RunHandle",
    "RunPage",
    "RunSummary",
    "RunView",
    "Runs",
    "StepView",
    "SyncRunHandle",
    "Worker",
    "WorkerView",
    "Workers",
]
