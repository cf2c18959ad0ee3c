"""The engine's calls that pages make, with row-level security, as in a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from bench.pages.examples import Examples

from redrive.engine.breakers import Breakers
from redrive.engine.queues import Queues, Workers
from redrive.engine.runs import Runs
from redrive.failures.service import Failures

RUN_QUERIES = (
    "",
    "is:failed",
    "is:success",
    "is:dlq_pending",
    "is:cancelled",
    "is:pending",
    "is:held",
    "is:waiting",
    "is:ready",
    "is:executing",
    "is:retrying",
    "workflow:workflow-3",
    "workflow:workflow-3 is:failed",
    "workflow:nothing-like-that",
    "queue:queue-1",
    "queue:queue-1 is:failed",
    "since:1h",
    "since:1d",
    "since:1d is:failed",
    "until:29d",
    "id:{run}",
    "correlation:order-77",
)
RUN_SCANS = ("attempts:>3", "tag:vip", "version:2026.3", "version:nothing", "priority:9")
LETTER_QUERIES = (
    "",
    "is:open",
    "is:closed",
    "is:any",
    "category:timeout",
    "category:timeout is:open",
    "step:charge",
    "workflow:workflow-3",
    "workflow:workflow-3 is:open",
    "queue:queue-1 is:open",
    "fp:{frequent}",
    "fp:{rare}",
    "fp:{frequent} is:open",
    "attempts:>3",
    "attempts:>3 is:open",
    "since:2h",
    "since:2h is:open",
    "since:1d workflow:workflow-3 is:open",
    "id:{letter}",
    "run:{run}",
    "assignee:ana is:open",
    "assignee:none is:open",
    "workflow:workflow-3 category:timeout is:open",
)
LETTER_SCANS = (
    "ReadTimeout",
    "nothing-like-that",
    'is:open "order 7"',
    "tag:vip is:open",
    "version:2026.3",
    "error:ReadTimeout is:open",
    "attempts:>9",
)


class Books(NamedTuple):
    failures: Failures
    runs: Runs
    queues: Queues
    workers: Workers
    breakers: Breakers


class Call(NamedTuple):
    """A call. `quick`: an index serves it. Other calls only need to respond or refuse in time."""

    name: str
    make: Callable[[Books], Awaitable[Any]]
    quick: bool = True


def calls(known: Examples) -> list[Call]:
    return [*_of_runs(known), *_of_letters(known), *_of_groups(known), *_of_one(known), *_others(known)]


def _of_runs(known: Examples) -> list[Call]:
    found = []
    for query, quick in [*((each, True) for each in RUN_QUERIES), *((each, False) for each in RUN_SCANS)]:
        found.append(Call(f"runs.list {query or '(all)'}", _run_list(query, known), quick))
        found.append(Call(f"runs.count {query or '(all)'}", _run_count(query, known), quick))
    return [
        *found,
        Call("runs.list (all), far", lambda books: books.runs.list(cursor=known.runs_far)),
        Call("runs.list is:failed, far", lambda books: books.runs.list("is:failed", cursor=known.runs_far)),
        Call("runs.counts", lambda books: books.runs.counts()),
    ]


def _run_list(query: str, known: Examples) -> Callable[[Books], Awaitable[Any]]:
    return lambda books: books.runs.list(query.format(**known._asdict()))


def _run_count(query: str, known: Examples) -> Callable[[Books], Awaitable[Any]]:
    return lambda books: books.runs.count(query.format(**known._asdict()))


def _of_letters(known: Examples) -> list[Call]:
    found = []
    all_of_them = [*((each, True) for each in LETTER_QUERIES), *((each, False) for each in LETTER_SCANS)]
    for query, quick in all_of_them:
        found.append(Call(f"letters.list {query or '(all)'}", _letter_list(query, known), quick))
        found.append(Call(f"letters.count {query or '(all)'}", _letter_count(query, known), quick))
    return [
        *found,
        Call(
            "letters.list is:open, far",
            lambda books: books.failures.list("is:open", cursor=known.open_far),
        ),
        Call(
            "letters.list is:open, oldest first",
            lambda books: books.failures.list("is:open", order="oldest"),
        ),
        Call("letters.statistics", lambda books: books.failures.statistics()),
    ]


def _letter_list(query: str, known: Examples) -> Callable[[Books], Awaitable[Any]]:
    return lambda books: books.failures.list(query.format(**known._asdict()))


def _letter_count(query: str, known: Examples) -> Callable[[Books], Awaitable[Any]]:
    return lambda books: books.failures.count(query.format(**known._asdict()))


def _of_groups(known: Examples) -> list[Call]:
    return [
        Call("groups.search", lambda books: books.failures.groups.list()),
        Call("groups.search group:open", lambda books: books.failures.groups.list("group:open")),
        Call(
            "groups.search group:open by occurrences",
            lambda books: books.failures.groups.list("group:open", sort="occurrences"),
        ),
        Call("groups.search by text", lambda books: books.failures.groups.list('"resetError in workflow-3"')),
        Call("groups.get frequent", lambda books: books.failures.groups.view(known.frequent)),
        Call("groups.occurrences 24 h", lambda books: books.failures.groups.occurrences(known.frequent)),
        Call(
            "groups.occurrences 30 d",
            lambda books: books.failures.groups.occurrences(
                known.frequent, seconds=30 * 86_400.0, buckets=30
            ),
        ),
    ]


def _of_one(known: Examples) -> list[Call]:
    return [
        Call("letter.get", lambda books: books.failures.view(known.letter)),
        Call("letter.notes", lambda books: books.failures.notes(known.letter)),
        Call("letter.dependencies", lambda books: books.failures.dependencies(known.letter)),
        Call("letter.verdict", lambda books: books.failures.verdict(known.letter)),
        Call("audit.about letter", lambda books: books.failures.audit.about(known.letter)),
        Call("run.get", lambda books: books.runs.view(known.run)),
        Call("run.story", lambda books: books.runs.story(known.run)),
    ]


def _others(known: Examples) -> list[Call]:
    return [
        Call("queues.list", lambda books: books.queues.list()),
        Call("queues.workers", lambda books: books.workers.list()),
        Call("breakers.list", lambda books: books.breakers.list()),
        Call("audit.list", lambda books: books.failures.audit.list()),
        Call("audit.list far", lambda books: books.failures.audit.list(cursor=known.audit_far)),
        Call("audit.list actor", lambda books: books.failures.audit.list(actor="cleo")),
        Call("audit.list action", lambda books: books.failures.audit.list(action="key.created")),
        Call("audit.list nobody", lambda books: books.failures.audit.list(actor="nobody")),
        Call("audit.list subject", lambda books: books.failures.audit.list(subject=known.letter)),
        Call("audit.list since", lambda books: books.failures.audit.list(since=1.0, until=2.0)),
        Call("operations.list", lambda books: books.failures.plans.list()),
        Call("operations.report", lambda books: books.failures.plans.report(known.operation)),
        Call("operations.items", lambda books: books.failures.plans.items(known.operation)),
        Call(
            "operations.items FAILED",
            lambda books: books.failures.plans.items(known.operation, state="FAILED"),
        ),
    ]
