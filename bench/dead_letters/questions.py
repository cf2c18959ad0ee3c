"""The queries of operators: dead letters, groups, one letter, one verdict, statistics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from redrive.failures.service import Failures

Ask = Callable[[Failures], Awaitable[Any]]


class Question(NamedTuple):
    """A query. `judged`: an index serves it, so it has a time limit for any number of letters."""

    name: str
    ask: Ask
    judged: bool = True


INDEXED = (
    "",
    "is:open",
    "is:live",
    "is:closed",
    "is:exhausted",
    "is:any",
    "category:timeout",
    "category:timeout,network is:open",
    "-category:timeout is:open",
    "workflow:workflow-3",
    "workflow:workflow-3 is:open",
    "workflow:workflow-3 is:live since:2h",
    "step:charge",
    "step:charge is:open",
    "-step:charge is:open",
    "queue:queue-1",
    "queue:queue-1 is:exhausted",
    "since:2h",
    "since:1d is:open",
    "since:20d until:19d",
    "until:29d is:open",
    "fp:{frequent}",
    "fp:{rare}",
    "fp:{beginning}",
    "fp:{frequent} is:open since:1d",
    "fp:{frequent},{rare}",
    "run:{letter}",
    "id:{letter}",
    "correlation:{correlation}",
    "assignee:ana",
    "assignee:me is:open",
    "workflow:workflow-3 category:timeout is:open",
    "queue:queue-1 step:charge is:open since:1d",
    "workflow:workflow-3 queue:queue-3 step:charge is:open",
    "workflow:workflow-3 category:timeout,network",
    "fp:{frequent} workflow:workflow-3",
    "category:timeout queue:queue-1 workflow:workflow-3 step:fetch",
    "step:charge queue:queue-5 category:conflict is:exhausted",
    "assignee:none is:open",
    "attempts:>3 is:open",
)
"""Every key that has an index, and frequent combinations."""

LOOKED_THROUGH = (
    "nothing-like-that",
    'is:open "order 7"',
    "tag:vip is:open",
    "version:2026.3",
    "error:ReadTimeout is:open",
    "assignee:none category:timeout attempts:6 is:exhausted version:2026.20",
)
"""Queries without an index: they scan the letters."""


OF_GROUPS = (
    "",
    "group:open",
    "group:regressed",
    "is:open",
    "is:closed",
    "is:replaying category:timeout",
    "workflow:workflow-3 step:charge is:open since:2h",
    "occurrences:>1000",
    '"resetError in workflow-3"',
)
"""There are thousands of groups, not millions, so scanning them is fine."""


class Examples(NamedTuple):
    """Values that occur: the most frequent failure and a rare one, a letter, and a cursor."""

    frequent: str
    rare: str
    letter: str
    correlation: str
    cursor: str | None

    def within(self, query: str) -> str:
        return query.format(beginning=self.rare[:12], **self._asdict())


def questions(examples: Examples) -> list[Question]:
    asked = [(query, True) for query in INDEXED] + [(query, False) for query in LOOKED_THROUGH]
    return [
        *(_page(examples.within(query), query, judged) for query, judged in asked),
        *(_count(examples.within(query), query, judged) for query, judged in asked),
        *_others(examples),
    ]


def _page(query: str, name: str, judged: bool) -> Question:
    return Question(f"page   {name or '(all)'}", lambda failures: failures.list(query), judged)


def _count(query: str, name: str, judged: bool) -> Question:
    return Question(f"count  {name or '(all)'}", lambda failures: failures.count(query), judged)


def _of_groups(query: str) -> Iterator[Question]:
    name = query or "(all)"
    yield Question(f"groups by time {name}", lambda failures: failures.groups.list(query))
    yield Question(
        f"groups by number {name}", lambda failures: failures.groups.list(query, sort="occurrences")
    )
    yield Question(f"groups counted {name}", lambda failures: failures.groups.count(query))


def _others(examples: Examples) -> list[Question]:
    frequent, letter, cursor = examples.frequent, examples.letter, examples.cursor
    return [
        Question("page   is:open, oldest first", lambda failures: failures.list("is:open", order="oldest")),
        Question("page   is:open, far behind", lambda failures: failures.list("is:open", cursor=cursor)),
        *(each for query in OF_GROUPS for each in _of_groups(query)),
        Question("group  the most frequent", lambda failures: failures.groups.view(frequent)),
        Question("group  its last day, by hours", lambda failures: failures.groups.occurrences(frequent)),
        Question("letter with its payload", lambda failures: failures.view(letter)),
        Question("letter its verdict", lambda failures: failures.verdict(letter)),
        Question("statistics", lambda failures: failures.statistics()),
        Question("statistics of a queue", lambda failures: failures.statistics("queue-1")),
    ]
