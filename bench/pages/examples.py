"""Values that occur in a filled database, which the addresses of pages need."""

from __future__ import annotations

from typing import NamedTuple

from bench.work.statements import fetch

from redrive import Redrive
from redrive.engine.runs import Runs
from redrive.failures.service import Failures
from redrive.model.query import Order
from redrive.store.cursor import Cursor


class Examples(NamedTuple):
    """Values for the addresses of pages.

    frequent, rare          fingerprints: of the most frequent failure, and of a rare one
    letter, run             ids: of an open dead letter with several attempts, and of its run
    idle                    the id of a run that waits
    operation               the id of a bulk replay with many items
    letters_far, runs_far   cursors far from the start of the lists
    audit_far               a cursor far from the start of the audit
    """

    frequent: str
    rare: str
    letter: str
    run: str
    idle: str
    operation: str
    letters_far: str
    open_far: str
    runs_far: str
    audit_far: str


async def examples_of(app: Redrive, failures: Failures, runs: Runs) -> Examples:
    groups = await fetch(
        app,
        "SELECT fingerprint FROM redrive.failure_groups WHERE org = 'default' AND occurrences > 1"
        " ORDER BY occurrences",
    )
    letters = (await failures.list("is:open attempts:4 since:15d", size=500, order="oldest")).lines
    letter = next(each for each in letters if each.id.endswith("0"))
    [operation] = await fetch(
        app,
        "SELECT operation_id FROM redrive.replays WHERE operation_id IS NOT NULL"
        " GROUP BY operation_id ORDER BY count(*) DESC LIMIT 1",
    )
    [waiting] = (await runs.list("is:waiting", size=1)).runs
    [far] = (await failures.list("until:25d", size=1)).lines
    cursor = str(Cursor(Order.NEWEST, far.created_at, far.id))
    audit = (await failures.audit.list(size=1)).entries[0].sequence // 10
    return Examples(
        groups[-1][0],
        groups[0][0],
        letter.id,
        letter.run_id,
        waiting.id,
        operation[0],
        cursor,
        cursor,
        cursor,
        str(audit),
    )
