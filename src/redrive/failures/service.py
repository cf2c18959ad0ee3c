"""Failed work: everything that one caller does with dead letters, groups and replays of one organization."""

from __future__ import annotations

from dataclasses import dataclass

from redrive.clock import Clock
from redrive.engine.breakers import Breakers
from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.encryption import Encryption
from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.engine.registry import Definitions, Registry
from redrive.engine.store_retrier import StoreRetrier
from redrive.failures.audit import Audit
from redrive.failures.dead_letters import DeadLetters
from redrive.failures.failed_runs import FailedRuns
from redrive.failures.groups import FailureGroups
from redrive.failures.operations import Operations
from redrive.failures.replays import Replays
from redrive.failures.saved_views import SavedViews
from redrive.failures.verdicts import Verdicts
from redrive.model.caller import Caller
from redrive.policy.codec import JsonLimits, JsonValue
from redrive.policy.redact import Redactor
from redrive.policy.verdict import ReplayVerdict
from redrive.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureServices:
    """What failed work is handled with. `store` is that of the caller's organization."""

    store: Store
    definitions: Definitions
    registry: Registry
    breakers: Breakers
    ids: Ids
    event_bus: EventBus
    retrier: StoreRetrier
    redactor: Redactor
    limits: JsonLimits
    clock: Clock
    encryption: Encryption
    letter_policy: DeadLetterPolicy


class Failures:
    """
    dead_letters  find them by a query, read, resolve, ignore, archive, note and link them
    groups        failures with one fingerprint
    replays       execute the work of one dead letter again
    operations    replay many: planned, started with a canary, stopped when it does not help
    saved_views   queries under a name
    audit         who did what
    """

    def __init__(self, services: FailureServices, caller: Caller) -> None:
        store, ids, event_bus, redactor = services.store, services.ids, services.event_bus, services.redactor
        self.caller = caller
        self.dead_letters = DeadLetters(store, ids, event_bus, redactor, services.encryption, caller)
        self.groups = FailureGroups(store, event_bus, redactor, services.clock, caller)
        self.replays = Replays(
            store=store,
            definitions=services.definitions,
            registry=services.registry,
            ids=ids,
            event_bus=event_bus,
            retrier=services.retrier,
            redactor=redactor,
            limits=services.limits,
            encryption=services.encryption,
            caller=caller,
        )
        self.replay = self.replays.start
        self.operations = Operations(store, services.breakers, ids, event_bus, redactor, caller)
        self.saved_views = SavedViews(store, ids, redactor, caller)
        self.audit = Audit(store, caller)
        self._verdicts = Verdicts(store, services.breakers, caller)
        self._runs = FailedRuns(
            store=store,
            definitions=services.definitions,
            registry=services.registry,
            ids=ids,
            event_bus=event_bus,
            retrier=services.retrier,
            redactor=redactor,
            encryption=services.encryption,
            letter_policy=services.letter_policy,
            replays=self.replays,
            caller=caller,
        )

    async def enter(self, run_id: str) -> str:
        """Make a dead letter of a failed run that has none, by its strategy or a full queue; its id."""
        return await self._runs.enter(run_id)

    async def retry(self, run_id: str, *, reason: str = "") -> None:
        """Queue a failed run again, unless the `source` of its task says that its subject is gone."""
        await self._runs.retry(run_id, reason)

    async def reveal(self, letter_id: str, *, reason: str) -> JsonValue:
        """The payload of the failed step with its secrets; the audit records who asked, and why."""
        return await self.dead_letters.reveal(letter_id, reason=reason)

    async def verdict(self, letter_id: str) -> ReplayVerdict:
        """Why it stopped, what has changed since, and what is likely to help."""
        return await self._verdicts.of(letter_id)
