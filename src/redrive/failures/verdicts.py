"""Verdicts on dead letters, from their stored facts and the current state of breakers and workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from redrive.engine.shared_breakers import HELD_BY_BREAKER, SharedBreakers
from redrive.errors import NotFoundError, NotStorableError
from redrive.model.caller import Caller
from redrive.model.dead_letter import STUCK
from redrive.model.replay import ReplayState
from redrive.model.worker import SILENT_SECONDS
from redrive.policy.bounds import require_kind
from redrive.policy.breaker import COUNTED
from redrive.policy.codec import decode
from redrive.policy.verdict import BreakerFact, LetterFacts, ReplayCounts, ReplayVerdict, verdict
from redrive.store.limits import WorkerRow
from redrive.store.store import Store
from redrive.store.verdict_facts import MAX_COUNT, EndedReplays, FactFinder, FailedLetter


class _LetterHistory(NamedTuple):
    letter: FailedLetter
    failed_at: float
    replays: list[EndedReplays]


class Verdicts:
    """Gives verdicts on the dead letters of the caller's organization."""

    def __init__(self, store: Store, breakers: SharedBreakers, caller: Caller) -> None:
        self._store = store
        self._breakers = breakers
        self._caller = caller
        self._finder = FactFinder(store.database, caller.org)

    async def of(self, letter_id: str) -> ReplayVerdict:
        return verdict(await self.facts(letter_id))

    async def facts(self, letter_id: str) -> LetterFacts:
        require_kind("letter_id", letter_id, str)
        if not letter_id.isprintable():
            raise NotFoundError(f"found no dead letter {letter_id!r}")
        letter = await self._finder.letter(letter_id)
        replays = await self._finder.replays(letter)
        history = _LetterHistory(letter, _failed_at(letter, replays), replays)
        return await self._with_later_facts(history, _stored_facts(history))

    async def _with_later_facts(self, history: _LetterHistory, facts: LetterFacts) -> LetterFacts:
        finder, letter = self._finder, history.letter
        succeeded = await finder.successes(letter.workflow, history.failed_at)
        awaited = await finder.waits_for(letter)
        return facts._replace(
            breaker=await self._breaker(letter),
            versions=_started_versions(await self._store.limits.workers(), history),
            failing=await finder.failing(letter, history.failed_at),
            succeeded=sum(succeeded.values()),
            succeeded_in=frozenset(succeeded),
            occurred=await finder.occurrences(letter, history.failed_at),
            waits_for=tuple(awaited),
            stuck_behind=tuple(other for other, state in awaited.items() if state in STUCK),
        )

    async def _breaker(self, letter: FailedLetter) -> BreakerFact | None:
        """Return the breaker of the failed step, unless the breaker does not count this kind of failure."""
        name = letter.breaker if letter.category in COUNTED else None
        shared = None if name is None else await self._breakers.look(name)
        if name is None or shared is None:
            return None
        snapshot = shared.snapshot
        idle = snapshot.is_idle(0) and snapshot.is_idle(await self._waiting(name))
        return BreakerFact(name, snapshot.state, shared.row.closed_at, snapshot.open_until, idle)

    async def _waiting(self, breaker: str) -> int:
        """Count the runs of the caller's organization that the breaker holds."""
        held = await self._store.run_lists.held(self._caller.org)
        return held.by(HELD_BY_BREAKER + breaker).number


def _stored_facts(history: _LetterHistory) -> LetterFacts:
    """Return the facts stored with the letter and its replays."""
    letter = history.letter
    return LetterFacts(
        state=letter.state,
        now=letter.now,
        failed_at=history.failed_at,
        step=letter.step,
        decision=letter.decision,
        category=letter.category,
        error_class=letter.error_class,
        error_type=letter.error_type,
        attempts=letter.attempts,
        code_version=letter.code_version,
        effect=letter.effect,
        may_have_executed=bool(letter.may_have_executed),
        most=MAX_COUNT,
        replays=_counts(replays for replays in history.replays if replays.own),
        other_replays=_counts(replays for replays in history.replays if not replays.own),
        redrives=letter.redrives,
        max_redrives=letter.max_redrives,
        next_redrive_at=letter.next_redrive_at,
    )


def _failed_at(letter: FailedLetter, replays: Iterable[EndedReplays]) -> float:
    """Return the time of its last failure, including those in replays."""
    failed = [ended.last_ended_at for ended in replays if ended.own and ended.state == ReplayState.FAILED]
    moments = [letter.created_at, letter.last_failed_at, *failed]
    return max(moment for moment in moments if moment is not None)


def _counts(replays: Iterable[EndedReplays]) -> ReplayCounts:
    numbers = {ended.state: ended.number for ended in replays}
    return ReplayCounts(numbers.get(ReplayState.SUCCEEDED, 0), numbers.get(ReplayState.FAILED, 0))


def _started_versions(workers: Iterable[WorkerRow], history: _LetterHistory) -> frozenset[str]:
    """Return the code versions of live workers for its queue that started after it failed."""
    return frozenset(
        worker.code_version
        for worker in workers
        if worker.started_at > history.failed_at
        and worker.seconds_silent < SILENT_SECONDS
        and history.letter.queue in _queues(worker)
    )


def _queues(worker: WorkerRow) -> list[object]:
    try:
        queues = decode(worker.queues)
    except NotStorableError:
        return []
    return list(queues) if isinstance(queues, list) else []
