"""The gate before execution: puts work on hold if a breaker is open or a concurrency limit is reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redrive.engine.shared_breakers import HELD_BY_BREAKER, Report, SharedBreakers
from redrive.engine.work import Work
from redrive.model.breaker import CallOutcome, Permit, Refusal
from redrive.policy.codec import encode
from redrive.store.limits import LimitRow
from redrive.store.record import Occupied
from redrive.store.store import Store

HELD_BY_LIMIT = "limit:"


class Passage(NamedTuple):
    """Work that may be executed, work on hold and by what, and work that another worker has taken over."""

    admitted: list[Work]
    held: list[tuple[Work, str, Refusal | None]]
    lost: list[Work]


class Gate:
    def __init__(self, store: Store, breakers: SharedBreakers) -> None:
        self._store = store
        self._breakers = breakers

    async def pass_(self, works: Sequence[Work]) -> Passage:
        """Admit work or put it on hold. Safe to repeat if the response of the database was lost."""
        bound = [work for work in works if work.is_bound]
        passage = Passage([work for work in works if not work.is_bound], [], [])
        allowed = await self._by_breakers(bound, passage)
        limited = [work for work in allowed if work.limits]
        passage.admitted.extend(work for work in allowed if not work.limits)
        if limited:
            await self._by_limits(limited, passage)
        return passage

    async def _by_breakers(self, works: Sequence[Work], passage: Passage) -> list[Work]:
        allowed = [work for work in works if work.step.breaker is None or work.permit is not None]
        by_name: dict[str, list[Work]] = {}
        for work in works:
            if work.step.breaker is not None and work.permit is None:
                by_name.setdefault(work.step.breaker, []).append(work)
        for name, group in sorted(by_name.items()):
            answers = await self._breakers.admit(name, len(group))
            for work, answer in zip(group, answers, strict=True):
                if isinstance(answer, Permit):
                    work.permit = answer
                    allowed.append(work)
                else:
                    passage.held.append((work, HELD_BY_BREAKER + name, answer))
        return allowed

    async def _by_limits(self, works: Sequence[Work], passage: Passage) -> None:
        maxima = {name: maximum for work in works for name, maximum in work.limits.items()}
        async with self._store.database.transaction() as session:
            free = await self._store.limits.lock_limits(session, maxima)
            known = await self._store.records.occupied(session, [_fence(work) for work in works])
            split = _split(works, known, free)
            await self._store.records.occupy(session, [_fence(work) for work in split.admitted])
            rows = [LimitRow(name, maxima[name], maxima[name] - free[name]) for name in sorted(maxima)]
            await self._store.limits.save_limits(session, rows)
        for work in (*split.lost, *(held for held, _, _ in split.held)):
            self._give_probe_back(work)
        passage.admitted.extend(split.admitted)
        passage.held.extend(split.held)
        passage.lost.extend(split.lost)

    def _give_probe_back(self, work: Work) -> None:
        if work.permit is not None and work.step.breaker is not None:
            self._breakers.report(work.step.breaker, Report(work.permit, CallOutcome.NOTHING))


def _split(works: Sequence[Work], known: Mapping[str, str | None], free: dict[str, int]) -> Passage:
    """Assign free slots. `known` maps each run that this worker still holds to the slots it already has."""
    passage = Passage([], [], [])
    for work in works:
        work.slots = known.get(work.claim.id)
        full = next((name for name in work.limits if free[name] <= 0), None)
        if work.claim.id not in known:
            passage.lost.append(work)
        elif work.slots is None and full is not None:
            passage.held.append((work, HELD_BY_LIMIT + full, None))
        else:
            _occupy(work, free)
            passage.admitted.append(work)
    return passage


def _occupy(work: Work, free: dict[str, int]) -> None:
    if work.slots is None:
        work.slots = encode(sorted(work.limits))
        for name in work.limits:
            free[name] -= 1


def _fence(work: Work) -> Occupied:
    return Occupied(id=work.claim.id, token=work.claim.token, epoch=work.claim.epoch, slots=work.slots)
