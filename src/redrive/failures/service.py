"""The desk: everything that one caller does with failed work. The org is the caller's, always."""

from __future__ import annotations

from redrive.engine.breakers import Breakers
from redrive.failures.audit import Audit
from redrive.failures.dead_letters import DeadLetters
from redrive.failures.groups import FailureGroups
from redrive.failures.manual_entry import Entry
from redrive.failures.operations import Operations
from redrive.failures.replays import Kit, Replays
from redrive.failures.retries import Retries
from redrive.failures.reveal import Reveal
from redrive.failures.saved_views import SavedViews
from redrive.failures.verdicts import Verdicts
from redrive.model.caller import Caller
from redrive.policy.codec import JsonValue
from redrive.policy.verdict import Verdict


class Failures:
    """
    dead_letters  finding them by a query, looking at them, resolving, ignoring, archiving, noting, linking
    groups        failures of one fingerprint
    replays       executing one dead letter's work again
    operations    the same with many: planned, begun carefully, stopped when it does not help
    saved_views   queries under a name
    audit         what was done, by whom
    """

    def __init__(self, kit: Kit, breakers: Breakers, caller: Caller) -> None:
        shared = (kit.event_bus, kit.redactor)
        self.caller = caller
        self.dead_letters = DeadLetters(kit.store, kit.ids, *shared, caller)
        self.groups = FailureGroups(kit.store, *shared, kit.clock, caller)
        self.replays = Replays(kit, caller)
        self.replay = self.replays.start
        self.operations = Operations(kit.store, breakers, kit.ids, *shared, caller)
        self.saved_views = SavedViews(kit.store, kit.ids, kit.redactor, caller)
        self.audit = Audit(kit.store, caller)
        self._verdicts = Verdicts(kit.store, breakers, caller)
        self._retries = Retries(kit, self.replays, caller)
        self._entry = Entry(kit, caller)
        self._reveal = Reveal(kit.store, kit.encryption, caller, kit.redactor)

    async def enter(self, run_id: str) -> str:
        """Make a dead letter of a failed run that has none, by its strategy or a full queue; the id."""
        return await self._entry.enter(run_id)

    async def retry(self, run_id: str, *, reason: str = "") -> None:
        """Queue a failed run again (P8), when the `source` of its task says that it makes sense."""
        await self._retries.retry(run_id, reason)

    async def reveal(self, letter_id: str, *, reason: str) -> JsonValue:
        """The payload of the failed step as it is, with its secrets; the audit keeps who asked, and why."""
        return await self._reveal.payload(letter_id, reason)

    async def verdict(self, letter_id: str) -> Verdict:
        """Why it stopped, what has changed since, and what is likely to help."""
        return await self._verdicts.of(letter_id)
