"""Guards of order keys: runs of one key are executed one at a time, in order, and none waits forever."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.guard import Guard
from tests.guards.patch import Schema, Sql

ORDER = "tests/store/test_run_order.py::"
IN_ORDER = "test_runs_of_a_key_are_claimed_one_at_a_time_in_order"
OTHERS = "test_runs_of_other_keys_and_organizations_do_not_wait"
BLOCKED = "test_successors_wait_for_a_dead_letter"
CLOSED = "test_closing_the_dead_letter_releases_the_next"
UNBURIED = "test_a_run_that_ends_without_a_dead_letter_releases_the_next"
REMOVED = "test_removing_the_run_releases_the_next"
PENDING = "UPDATE redrive.run_order SET pending = 3 WHERE run_id = {}\n"

# name, what goes wrong, on which database, the fragment of the migration, its replacement, the test
_ON_EACH = (
    (
        "a start waits for its predecessor",
        "two runs with one order key are executed at once",
        {
            "sqlite": ("AND order_key = NEW.order_key AND position < NEW.position)", "AND 1 = 0)"),
            "postgres": ("AND order_key = used.order_key AND position < last", "AND false"),
        },
        IN_ORDER,
    ),
    (
        "the end of a run releases the next",
        "the later runs of an order key wait forever",
        {
            "sqlite": ("WHEN NEW.order_key IS NOT NULL AND NEW.place = 'ended'", "WHEN 1 = 0"),
            "postgres": (PENDING.format("NEW.id"), PENDING.format("NEW.id AND false")),
        },
        IN_ORDER,
    ),
    (
        "orders belong to organizations",
        "a run waits for a run of another organization that has the same order key",
        {
            "sqlite": (
                "SELECT run_id, due_at FROM run_order WHERE org = OLD.org AND order_key",
                "SELECT run_id, due_at FROM run_order WHERE order_key",
            ),
            "postgres": (
                "WHERE org = used.org AND order_key = used.order_key ORDER BY position LIMIT 1",
                "WHERE order_key = used.order_key ORDER BY position LIMIT 1",
            ),
        },
        OTHERS,
    ),
    (
        "a dead letter blocks its order",
        "the later runs of an order key are executed although an earlier one has failed",
        {
            "sqlite": ("NEW.state IN ('FAILED', 'DLQ_PENDING') AND after_failure", "1 = 0 AND after_failure"),
            "postgres": (
                "WHERE run_id = run AND (state || '') IN",
                "WHERE run_id = run AND false AND (state || '') IN",
            ),
        },
        f"{BLOCKED}[{{side}}-FAILED]",
    ),
    (
        "a closed dead letter releases the next",
        "after an operator has closed a dead letter, the later runs of its order key wait forever",
        {
            "sqlite": (
                "AND EXISTS (SELECT 1 FROM run_order WHERE run_id = NEW.run_id)\nBEGIN",
                "AND 1 = 0\nBEGIN",
            ),
            "postgres": (PENDING.format("NEW.run_id"), PENDING.format("NEW.run_id AND false")),
        },
        f"{CLOSED}[{{side}}-IGNORED]",
    ),
    (
        "a removed run releases the next",
        "if a run was deleted, the later runs of its order key wait forever",
        {
            "sqlite": (
                "AFTER DELETE ON runs WHEN OLD.order_key IS NOT NULL",
                "AFTER DELETE ON runs WHEN 1 = 0",
            ),
            "postgres": (PENDING.format("OLD.id"), PENDING.format("OLD.id AND false")),
        },
        REMOVED,
    ),
)
_ON_ONE = (
    Guard(
        "order.a failure without a dead letter releases the next",
        "the later runs of an order key wait forever for a dead letter that nobody wrote",
        (Schema("WHEN NEW.kind = 'unburied'", "WHEN 1 = 0"),),
        (f"{ORDER}{UNBURIED}[sqlite]",),
    ),
    Guard(
        "order.the order is that of the commits",
        "concurrent starts with one order key are both executed at once",
        (
            Schema(
                "DO UPDATE SET last_position = key.last_position + excluded.last_position",
                "DO NOTHING",
            ),
        ),
        (f"{ORDER}test_the_order_is_that_of_the_commits",),
    ),
    Guard(
        "order.settled at commit",
        "a start in an open transaction blocks other starts, and workers that finish runs of its order key",
        (Schema("DEFERRABLE INITIALLY DEFERRED", "DEFERRABLE INITIALLY IMMEDIATE"),),
        (f"{ORDER}test_an_open_start_keeps_no_run_from_ending",),
    ),
    Guard(
        "order.the list keeps its order",
        "the runs of one call are executed in another order than that of its list",
        (
            Schema(
                "array_agg(run_id ORDER BY run_id) FILTER (WHERE pending < 3)",
                "array_agg(run_id ORDER BY run_id DESC) FILTER (WHERE pending < 3)",
            ),
        ),
        (f"{ORDER}test_a_list_with_idempotency_keys_keeps_its_order[postgres]",),
    ),
    Guard(
        "order.no decision by an old snapshot",
        "a start in a transaction with an old snapshot waits for a run that has finished, forever",
        (Schema("IF current_setting('transaction_isolation') <> 'read committed' THEN", "IF false THEN"),),
        (f"{ORDER}test_a_transaction_with_an_old_snapshot_fails_instead_of_parking_for_ever",),
    ),
    Guard(
        "order.only marked ids",
        "a run with an order key leaves the order unnoticed, because its id has no mark",
        (Schema("CHECK (substring(uuid_send(run_id) FROM 15) = '\\xf1f0')", "CHECK (true)"),),
        (f"{ORDER}test_an_id_without_the_mark_is_rejected",),
    ),
    Guard(
        "order.of one organization",
        "a caller sees the order key of a run of another organization",
        (Sql("runs.order", r"run\.org = (?:\?\d+|\$\d+)"),),
        tuple(
            f"{ORDER}test_a_run_knows_what_it_waits_for_and_how_many_wait_behind_it[{side}]"
            for side in ("sqlite", "postgres")
        ),
    ),
)


def _guards() -> Iterator[Guard]:
    for name, prevents, sides, test in _ON_EACH:
        for side, (fragment, replacement) in sides.items():
            catcher = test.format(side=side) if "[" in test else f"{test}[{side}]"
            yield Guard(
                f"order.{name} ({side})", prevents, (Schema(fragment, replacement),), (f"{ORDER}{catcher}",)
            )


GUARDS = (*_guards(), *_ON_ONE)
