"""How long queries take on a filled database."""

from __future__ import annotations

from statistics import median
from time import perf_counter

from bench.dead_letters.questions import Examples, Question, questions
from bench.work.statements import fetch

from redrive import Redrive
from redrive.failures.service import Failures
from redrive.settings import Settings

PAGES_BEHIND = 20


async def milliseconds(url: str, times: int) -> dict[str, float]:
    """Return the medians of all queries after a first one each. Names without a target are in brackets."""
    async with Redrive(settings=Settings(database_url=url)) as app:
        failures = app.failures(by="ana")
        asked = questions(await _examples(app, failures))
        return {_name(each): await _median(each, failures, times) for each in asked}


async def _median(question: Question, failures: Failures, times: int) -> float:
    values = []
    for _ in range(times + 1):
        started = perf_counter()
        await question.ask(failures)
        values.append((perf_counter() - started) * 1e3)
    return median(values[1:])


async def _examples(app: Redrive, failures: Failures) -> Examples:
    groups = await fetch(
        app,
        "SELECT fingerprint FROM redrive.failure_groups WHERE org = 'default' AND occurrences > 1"
        " ORDER BY occurrences",
    )
    [letter] = (await failures.list("is:open since:15d", size=1, order="oldest")).lines
    cursor = None
    for _ in range(PAGES_BEHIND):
        cursor = (await failures.list("is:open", size=500, cursor=cursor)).next_cursor or cursor
    return Examples(groups[-1][0], groups[0][0], letter.id, letter.correlation_id, cursor)


def _name(question: Question) -> str:
    return question.name if question.judged else f"({question.name})"
