"""Verdicts on dead letters, from what is stored about them and what happens now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from redrive.engine.shared_breakers import SharedBreakers
from redrive.errors import NotFoundError, NotStorableError
from redrive.model.caller import Caller
from redrive.model.replay import ReplayState
from redrive.policy.bounds import require_kind
from redrive.policy.codec import decode
from redrive.policy.verdict import BreakerFact, LetterFacts, ReplayCounts, ReplayVerdict, verdict
from redrive.store.limits import SILENT_SECONDS as SILENT_SECONDS
from redrive.store.limits import WorkerRow
from redrive.store.store import Store
from redrive.store.verdict_facts import MAX_COUNT, EndedReplays, FactFinder, FailedLetter


class _Since(NamedTuple):
    letter: FailedLetter
    failed_at: float
    replays: list[EndedReplays]


class Verdicts:
    """Verdicts on the dead letters of the caller's organization."""

    def __init__(self, store: Store, breakers: SharedBreakers, caller: Caller) -> None:
        self._store = store
        self._breakers = breakers
        self._finder = FactFinder(store.database, caller.org)

    async def of(self, letter_id: str) -> ReplayVerdict:
        return verdict(await self.facts(letter_id))

    async def facts(self, letter_id: str) -> LetterFacts:
        require_kind("letter_id", letter_id, str)
        if not letter_id.isprintable():
            raise NotFoundError(f"there is no dead letter {letter_id!r}")
        letter = await self._finder.letter(letter_id)
        replays = await self._finder.replays(letter)
        since = _Since(letter, _failed_at(letter, replays), replays)
        return await self._happened(since, _known(since))

    async def _happened(self, since: _Since, facts: LetterFacts) -> LetterFacts:
        finder, letter = self._finder, since.letter
        succeeded = await finder.successes(letter.workflow, since.failed_at)
        return facts._replace(
            breaker=await self._breaker(letter.breaker),
            versions=_started(await self._store.limits.workers(), since),
            failing=await finder.failing(letter, since.failed_at),
            succeeded=sum(succeeded.values()),
            succeeded_in=frozenset(succeeded),
            occurred=await finder.occurrences(letter, since.failed_at),
            waits_for=await finder.waits_for(letter),
        )

    async def _breaker(self, name: str | None) -> BreakerFact | None:
        shared = None if name is None else await self._breakers.look(name)
        if name is None or shared is None:
            return None
        snapshot = shared.snapshot
        return BreakerFact(name, snapshot.state, shared.row.closed_at, snapshot.open_until)


def _known(since: _Since) -> LetterFacts:
    """The facts that the letter itself and its replays hold."""
    letter = since.letter
    return LetterFacts(
        state=letter.state,
        now=letter.now,
        failed_at=since.failed_at,
        step=letter.step,
        reason=letter.reason,
        explanation=letter.explanation,
        category=letter.category,
        error_class=letter.error_class,
        error_type=letter.error_type,
        attempts=letter.attempts,
        code_version=letter.code_version,
        effect=letter.effect,
        may_have_executed=bool(letter.may_have_executed),
        most=MAX_COUNT,
        replays=_record(replays for replays in since.replays if replays.own),
        other_replays=_record(replays for replays in since.replays if not replays.own),
        redrives=letter.redrives,
        max_redrives=letter.max_redrives,
        next_redrive_at=letter.next_redrive_at,
    )


def _failed_at(letter: FailedLetter, replays: Iterable[EndedReplays]) -> float:
    """When it failed last, by itself or in a replay."""
    failed = [ended.last_ended_at for ended in replays if ended.own and ended.state == ReplayState.FAILED]
    moments = [letter.created_at, letter.last_failed_at, *failed]
    return max(moment for moment in moments if moment is not None)


def _record(replays: Iterable[EndedReplays]) -> ReplayCounts:
    numbers = {ended.state: ended.number for ended in replays}
    return ReplayCounts(numbers.get(ReplayState.SUCCEEDED, 0), numbers.get(ReplayState.FAILED, 0))


def _started(workers: Iterable[WorkerRow], since: _Since) -> frozenset[str]:
    """The code versions of live workers for its queue that were started after it failed."""
    return frozenset(
        worker.code_version
        for worker in workers
        if worker.started_at > since.failed_at
        and worker.seconds_silent < SILENT_SECONDS
        and since.letter.queue in _queues(worker)
    )


def _queues(worker: WorkerRow) -> list[object]:
    try:
        queues = decode(worker.queues)
    except NotStorableError:
        return []
    return list(queues) if isinstance(queues, list) else []
