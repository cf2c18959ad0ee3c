"""Types for annotations: what the methods of an application return. Programs do not construct them."""

from __future__ import annotations

from redrive.engine.breakers import Breakers, BreakerView
from redrive.engine.handle import RunHandle, SyncRunHandle
from redrive.engine.history import History
from redrive.engine.queues import Queues, QueueView, Workers, WorkerView
from redrive.engine.run_view import AttemptView, RunSummary, RunView, StepView
from redrive.engine.runs import RunPage, Runs
from redrive.engine.worker import Worker
from redrive.events.queries import EventPage, EventSummary
from redrive.events.rebuilds import RebuildPage, RebuildPreview, Rebuilds
from redrive.events.replays import EventReplays, ProjectionReplay
from redrive.events.service import Events, EventView, RecordedEvent
from redrive.events.streams import ProjectorView, Streams, StreamView
from redrive.failures.service import Failures
from redrive.idempotency.decorator import Idempotent
from redrive.identity.members import Members
from redrive.model.dead_letter import DeadLetter, DeadLetterLine
from redrive.model.failure_group import FailureGroup
from redrive.model.operation import OperationReport, Plan, ReplayOperation
from redrive.model.rebuild import Rebuild
from redrive.model.replay import Replay
from redrive.model.stream import ProjectionRecord
from redrive.policy.verdict import ReplayVerdict

__all__ = [
    "AttemptView",
    "BreakerView",
    "Breakers",
    "DeadLetter",
    "DeadLetterLine",
    "EventPage",
    "EventReplays",
    "EventSummary",
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
    "ProjectionReplay",
    "ProjectorView",
    "QueueView",
    "Queues",
    "Rebuild",
    "RebuildPage",
    "RebuildPreview",
    "Rebuilds",
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
    "StreamView",
    "Streams",
    "SyncRunHandle",
    "Worker",
    "WorkerView",
    "Workers",
]
