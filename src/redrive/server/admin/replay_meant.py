"""What somebody wants to replay, by a query, ids or a failure group: how many that is, before a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError, NotFoundError
from redrive.failures.service import Failures
from redrive.model.dead_letter import DeadLetterLine
from redrive.model.operation import MAX_ITEMS
from redrive.model.query import Count, Query, Term
from redrive.policy.query import parse

FEW = 5
_REPLAYABLE = ("OPEN", "EXHAUSTED")
_LIVE = Term("is", ("OPEN", "REPLAYING", "EXHAUSTED"))


class Meant(NamedTuple):
    """
    body    how the API is told what is meant
    number  how many can be replayed; capped at what one operation takes
    others  how many more are meant, and cannot be replayed now
    unsafe  how many of them, at most, may repeat an effect that is not safe to repeat
    lines   the dead letters themselves, if they are few
    title   of the failure group, if that is what is meant
    """

    body: Mapping[str, Any]
    number: Count
    others: int = 0
    unsafe: int = 0
    lines: Sequence[DeadLetterLine] = ()
    title: str = ""

    @property
    def one(self) -> DeadLetterLine | None:
        """The only one that is meant."""
        alone = len(self.lines) == 1 and self.number.number + self.others == 1
        return self.lines[0] if alone else None


async def meant(desk: Failures, query: str | None, ids: str | None, group: str | None) -> Meant | None:
    """None when nobody has said yet what is meant."""
    given = [each for each in (query, ids, group) if each]
    if len(given) > 1:
        raise InvalidValueError("say what is to be replayed by one of q, ids and group")
    if ids:
        return await _by_ids(desk, [each for each in ids.split(",") if each])
    if group:
        return await _by_group(desk, group)
    return await _by_query(desk, query) if query else None


async def _by_ids(desk: Failures, ids: Sequence[str]) -> Meant:
    lines = await desk.dead_letters.lines(ids)
    known = {line.id for line in lines}
    for each in ids:
        if each not in known:
            raise NotFoundError(f"there is no dead letter {each!r:.200}")
    able = [line for line in lines if line.state in _REPLAYABLE]
    unsafe = sum(line.effect == "unsafe" and bool(line.may_have_executed) for line in able)
    body = {"ids": [line.id for line in lines]}
    shown = lines if len(lines) <= FEW else ()
    return Meant(body, Count(len(able), False), len(lines) - len(able), unsafe, shown)


async def _by_group(desk: Failures, fingerprint: str) -> Meant:
    found = (await desk.groups.get(fingerprint)).group
    asked = Query((_LIVE, Term("fp", (found.fingerprint,))))
    counted = await _counted(desk, asked, {"group": found.fingerprint})
    return counted._replace(title=found.title)


async def _by_query(desk: Failures, text: str) -> Meant:
    """What is closed is not meant, unless the query names it."""
    asked = parse(text)
    if not any(term.key == "is" for term in asked.terms):
        asked = Query((*asked.terms, _LIVE))
    return await _counted(desk, asked, {"query": str(asked)})


async def _counted(desk: Failures, asked: Query, body: Mapping[str, Any]) -> Meant:
    letters = desk.dead_letters
    able = Query((*asked.terms, Term("is", _REPLAYABLE)))
    unsafe = Query((*able.terms, Term("effect", ("unsafe",))))
    everything = await letters.count(str(asked), most=MAX_ITEMS)
    number = await letters.count(str(able), most=MAX_ITEMS)
    risky = (await letters.count(str(unsafe))).number if number.number else 0
    lines = (await letters.list(str(asked), size=FEW)).lines if 0 < everything.number <= FEW else ()
    return Meant(body, number, everything.number - number.number, risky, lines)
