"""Queries over dead letters: list, count and view them, with their notes, links and related letters."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.failures.preconditions import checked_ids, reject_missing
from redrive.model.caller import Caller
from redrive.model.dead_letter import DeadLetter, DeadLetterLine, Note, Related
from redrive.model.operation import MAX_ITEMS
from redrive.model.query import MAX_COUNTED, Count, Order, Query, Term
from redrive.policy.bounds import choice, require_whole
from redrive.policy.query import parse
from redrive.store.dead_letter_listing import DeadLetterPage
from redrive.store.dead_letters import LetterFigures
from redrive.store.store import Store

MAX_PAGE_SIZE = 500
MAX_RELATED = 20


class DeadLetterQueries:
    """Reads the dead letters of the caller's organization. No other letters are visible."""

    def __init__(self, store: Store, caller: Caller) -> None:
        self._letters = store.dead_letters
        self._caller = caller

    async def list(
        self, query: str = "", *, size: int = 50, cursor: str | None = None, order: Order | str = Order.NEWEST
    ) -> DeadLetterPage:
        """A page of the letters that match the query (redrive.policy.query), without their payloads."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        known = choice("order", order, Order)
        return await self._letters.page(self._parsed(query), self._caller.org, size, cursor, known)

    async def count(self, query: str = "", *, most: int = MAX_COUNTED) -> Count:
        """Count the letters that match the query, up to `most`."""
        require_whole("most", most, 1, MAX_ITEMS)
        return await self._letters.count(self._parsed(query), self._caller.org, most)

    async def lines(self, ids: Sequence[str]) -> Sequence[DeadLetterLine]:
        """The lines of these letters in the given order; ids of unknown letters are left out."""
        known = [letter_id for letter_id in dict.fromkeys(ids) if letter_id.isprintable()]
        return await self._letters.lines_by_ids(known, self._caller.org)

    async def view(self, letter_id: str) -> DeadLetter:
        """A letter with its payload, config, traceback and decision, redacted."""
        [known] = checked_ids([letter_id])
        return await self._letters.get(known, self._caller.org)

    async def notes(self, letter_id: str) -> Sequence[Note]:
        """The notes on a letter, oldest first."""
        return await self._letters.notes((await self._line(letter_id)).id, self._caller.org)

    async def dependencies(self, letter_id: str) -> Sequence[DeadLetterLine]:
        """The letters that must be resolved before this one is redriven."""
        return await self._letters.dependencies((await self._line(letter_id)).id, self._caller.org)

    async def related(self, letter_id: str) -> Related:
        """Other letters with the same run, correlation id or failure: up to 20 of each, newest first."""
        letter = await self._line(letter_id)
        of_run = Term("run", (letter.run_id,))
        correlation = Term("correlation", (letter.correlation_id,))
        return Related(
            same_run=await self._others(letter, of_run),
            same_correlation=await self._others(letter, correlation, of_run._replace(negated=True)),
            same_failure=await self._others(letter, Term("fp", (letter.fingerprint,))),
        )

    async def statistics(self, queue: str | None = None) -> LetterFigures:
        """Count letters by state, category and policy, of one queue or all; also totals since the start."""
        return await self._letters.figures(self._caller.org, queue)

    async def _others(self, letter: DeadLetterLine, *terms: Term) -> tuple[DeadLetterLine, ...]:
        page = await self._letters.page(Query(terms), self._caller.org, MAX_RELATED + 1)
        return tuple([line for line in page.lines if line.id != letter.id][:MAX_RELATED])

    async def _line(self, letter_id: str) -> DeadLetterLine:
        ids = checked_ids([letter_id])
        lines = await self._letters.lines_by_ids(ids, self._caller.org)
        reject_missing([] if lines else ids)
        return lines[0]

    def _parsed(self, query: str) -> Query:
        return parse(query).asked_by(self._caller.name)
