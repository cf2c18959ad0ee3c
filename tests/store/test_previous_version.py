"""Every migration works while workers of the previous version are running.

If a test fails after you add a migration, that migration breaks workers that are still running: see
"Migrations" in docs/internals/storage.md for what a migration may do.
"""

from __future__ import annotations

import pytest
from tests.store.previous_version import live, prepare_all, previous_statements, previous_version

from redrive.errors import StoreError
from redrive.store import migration
from redrive.store.database import Database
from redrive.store.migration import Migration, migrations
from redrive.store.statement import statements
from redrive.store.store import Store

pytestmark = pytest.mark.usefixtures("real_migrations")


NEEDED = {
    *("enqueue", "enqueue_new", "enqueue_mixed", "claim", "adopt", "renew", "reclaim", "promote", "complete"),
    *("advance", "hand_over", "reschedule", "park", "stop", "release", "cancel_idle", "cancel_leased"),
    *("heartbeat", "insert_step", "insert_attempt", "insert_dead_letter", "insert_settings", "restart"),
}


async def check(database: Database) -> None:
    """Send every statement that a worker of the previous version sends."""
    await prepare_all(database)
    with previous_version() as sent:
        await live(Store(database))
    assert NEEDED - sent == set()


async def test_a_worker_of_the_previous_version_continues_after_the_newest_migration(fresh: Database) -> None:
    await fresh.migrate()

    await check(fresh)


def later(monkeypatch: pytest.MonkeyPatch, text: str, sqlite: str = "", postgres: str = "") -> None:
    """Add a migration."""
    known = (*migrations(), Migration(migrations()[-1].version + 1, "later", text, sqlite, postgres))
    monkeypatch.setattr(migration, "migrations", lambda: known)


HARMLESS = """
ALTER TABLE redrive.attempts ADD COLUMN color text;
ALTER TABLE redrive.steps ADD COLUMN weight integer NOT NULL DEFAULT 0;
CREATE TABLE redrive.colors (name text PRIMARY KEY);
CREATE INDEX steps_by_weight ON redrive.steps (weight);
"""


async def test_changes_that_a_migration_may_make(fresh: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch, HARMLESS)
    await fresh.migrate()

    await check(fresh)


STEPS_WITH_WEIGHT = """
DROP TABLE redrive.steps;
CREATE TABLE redrive.steps (
    run_id text NOT NULL, step_index integer NOT NULL, name text NOT NULL, task text NOT NULL,
    state text NOT NULL, output text, attempts integer NOT NULL, worker text, code_version text,
    started_at double precision, ended_at double precision, weight integer NOT NULL,
    PRIMARY KEY (run_id, step_index)
);
"""
HARMFUL = {
    "a dropped column": ("ALTER TABLE redrive.steps DROP COLUMN output;\n",),
    "a renamed column": ("ALTER TABLE redrive.attempts RENAME COLUMN reason TO cause;\n",),
    "a dropped table": ("DROP TABLE redrive.failure_group_versions;\n",),
    "a column that must be given": (STEPS_WITH_WEIGHT,),
    "a renamed column of runs": (
        "",
        "ALTER TABLE runs RENAME COLUMN leased_until TO lease_ends_at;\n",
        "ALTER TABLE redrive.leases RENAME COLUMN leased_until TO lease_ends_at;\n",
    ),
}


@pytest.mark.parametrize("change", HARMFUL)
async def test_changes_that_a_migration_must_not_make_are_noticed(
    fresh: Database, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    later(monkeypatch, *HARMFUL[change])
    await fresh.migrate()

    with pytest.raises(StoreError):
        await check(fresh)


def test_the_present_statements_are_used_again_afterwards() -> None:
    before = statements("leases")["claim"]
    with previous_version():
        assert statements("leases")["claim"] == previous_statements()["leases"]["claim"]
    assert statements("leases")["claim"] is before
