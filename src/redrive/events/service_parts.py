"""The dependencies that the services for events share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

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
    async def __call__(self, run_id: str, *, reason: str = "") -> None: ...


class EventParts(NamedTuple):
    """The parts of the application that serve the events of one caller.

    retry_run  queues a failed run again, with its dead letter: `Failures.replay_run`
    plan       plans a bulk replay of dead letters: `BulkReplays.create`
    """

    caller: Caller
    store: Store
    recorder: EventRecorder
    ids: Ids
    retrier: StoreRetrier
    encryption: Encryption
    redactor: Redactor
    streams: Mapping[str, Stream]
    retry_run: RetryRun
    plan: Callable[..., Awaitable[Plan]]
