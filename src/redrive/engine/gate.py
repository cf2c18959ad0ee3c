"""The gate before execution: what an open breaker or a full limit holds back is parked, uncharged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.engine.breakers import HELD_BY_BREAKER, Breakers
from redrive.engine.work import Work
from redrive.model.breaker import Permit, Refusal
from redrive.policy.codec import encode
from redrive.store.holds import LimitRow
from redrive.store.records import Occupied
from redrive.store.store import Store

HELD_BY_LIMIT = "limit:"


class Passage(NamedTuple):
    """What may be executed, and what has to wait for what."""

    admitted: list[Work]
    held: list[tuple[Work, str, Refusal | None]]


class Gate:
    def __init__(self, store: Store, breakers: Breakers) -> None:
        self._store = store
        self._breakers = breakers

    async def pass_(self, works: Sequence[Work]) -> Passage:
        bound = [work for work in works if work.is_bound]
        passage = Passage([work for work in works if not work.is_bound], [])
        if bound:
            allowed = await self._by_breakers(bound, passage)
            await self._by_limits(allowed, passage)
        return passage

    async def _by_breakers(self, works: Sequence[Work], passage: Passage) -> list[Work]:
        allowed = [work for work in works if work.step.breaker is None]
        by_name: dict[str, list[Work]] = {}
        for work in works:
            if work.step.breaker is not None:
                by_name.setdefault(work.step.breaker, []).append(work)
        for name, several in sorted(by_name.items()):
            answers = await self._breakers.admit(name, len(several))
            for work, answer in zip(several, answers, strict=True):
                if isinstance(answer, Permit):
                    work.permit = answer
                    allowed.append(work)
                else:
                    passage.held.append((work, HELD_BY_BREAKER + name, answer))
        return allowed

    async def _by_limits(self, works: Sequence[Work], passage: Passage) -> None:
        passage.admitted.extend(work for work in works if not work.limits)
        limited = [work for work in works if work.limits]
        if not limited:
            return
        maxima = {name: maximum for work in limited for name, maximum in work.limits.items()}
        async with self._store.database.transaction() as session:
            free = await self._store.holds.lock_limits(session, maxima)
            occupied = []
            for work in limited:
                full = next((name for name in work.limits if free[name] <= 0), None)
                if full is not None:
                    passage.held.append((work, HELD_BY_LIMIT + full, None))
                    continue
                for name in work.limits:
                    free[name] -= 1
                work.slots = encode(sorted(work.limits))
                occupied.append(Occupied(work.claim.id, work.claim.token, work.claim.epoch, work.slots))
            kept = await self._store.records.occupy(session, occupied) if occupied else set()
            lost = [work for work in limited if work.slots is not None and work.claim.id not in kept]
            for work in lost:
                for name in work.limits:
                    free[name] += 1
            rows = [LimitRow(name, maxima[name], maxima[name] - free[name]) for name in sorted(maxima)]
            await self._store.holds.save_limits(session, rows)
        passage.admitted.extend(work for work in limited if work.claim.id in kept)
