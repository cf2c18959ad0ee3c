"""What else has failed that may have to do with a dead letter: in its run, beside it, in the same way."""

from __future__ import annotations

from redrive.failures.refusal import refuse_missing
from redrive.model.dead_letter import DeadLetterLine, Related
from redrive.model.query import Query, Term
from redrive.store.dead_letters import DeadLetters

MAX_RELATED = 5


async def related_to(letters: DeadLetters, letter_id: str, org: str) -> Related:
    """Up to 5 of each kind, the newest first, without the letter itself; each is one lookup in an index."""
    found = await letters.lines_by_ids([letter_id], org)
    refuse_missing([] if found else [letter_id])
    [letter] = found

    async def others(*terms: Term) -> tuple[DeadLetterLine, ...]:
        page = await letters.page(Query(terms), org, MAX_RELATED + 1)
        return tuple([line for line in page.lines if line.id != letter.id][:MAX_RELATED])

    of_run = Term("run", (letter.run_id,))
    return Related(
        same_run=await others(of_run),
        same_correlation=await others(
            Term("correlation", (letter.correlation_id,)), of_run._replace(negated=True)
        ),
        same_failure=await others(Term("fp", (letter.fingerprint,))),
    )
