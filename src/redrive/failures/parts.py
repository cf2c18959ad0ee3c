"""The dependencies that the services for failed work share."""

from __future__ import annotations

from dataclasses import dataclass

from redrive.clock import Clock
from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.definition import Definitions
from redrive.engine.encryption import Encryption
from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.engine.registry import Registry
from redrive.engine.shared_breakers import SharedBreakers
from redrive.engine.store_retrier import StoreRetrier
from redrive.engine.strategies import CurrentStrategies
from redrive.model.caller import Caller
from redrive.policy.codec import JsonLimits
from redrive.policy.redact import Redactor
from redrive.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureParts:
    """The dependencies of triage and replays. `store` is the store of the caller's organization."""

    caller: Caller
    store: Store
    definitions: Definitions
    registry: Registry
    breakers: SharedBreakers
    ids: Ids
    event_bus: EventBus
    retrier: StoreRetrier
    redactor: Redactor
    limits: JsonLimits
    clock: Clock
    encryption: Encryption
    letter_policy: DeadLetterPolicy
    strategies: CurrentStrategies
