"""The dependencies that the services for events share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from redrive.engine.encryption import Encryption
from redrive.engine.ids import Ids
from redrive.engine.store_retrier import StoreRetrier
from redrive.events.recorder import EventRecorder
from redrive.events.stream import Stream
from redrive.model.caller import Caller
from redrive.model.operation import Plan
from redrive.policy.redact import Redactor
from redrive.store.store import Store


class RetryRun(Protocol):
    """Queues a failed run again, with its dead letter: `Failures.replay_run`."""

    async def __call__(self, run_id: str, *, reason: str = "") -> None: ...


class PlanReplay(Protocol):
    """Plans a bulk replay of dead letters: `BulkReplays.create`."""

    async def __call__(self, **request: Any) -> Plan: ...


class EventParts(NamedTuple):
    """The parts of the application that serve the events of one caller."""

    caller: Caller
    store: Store
    recorder: EventRecorder
    ids: Ids
    retrier: StoreRetrier
    encryption: Encryption
    redactor: Redactor
    streams: Mapping[str, Stream]
    retry_run: RetryRun
    plan: PlanReplay
