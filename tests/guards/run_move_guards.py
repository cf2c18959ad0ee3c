"""Guards of runs that move between tables on PostgreSQL.

A move loses no column, and a run is in one table at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.guard import Guard
from tests.guards.patch import ALWAYS, Schema, Side, Sql

MOVES = "tests/guards/test_moves.py::"
RECORDED = f"{MOVES}test_a_record_leaves_the_marks_of_its_lease_i4"
MOVED_ON = f"{MOVES}test_later_moves_of_a_run_keep_the_marks_of_its_lease_i4"
CANCELLED = f"{MOVES}test_a_record_does_not_undo_the_request_to_cancel"
ONE_TABLE = f"{MOVES}test_the_work_of_a_run_is_in_one_table"
NEVER_COUNTED = f"{MOVES}test_counters_of_a_finished_run_that_were_never_set_are_0"
TAKEN_UP = f"{MOVES}test_counters_of_a_failed_run_that_were_never_set_are_read_as_0"
POSTGRES: tuple[Side, ...] = ("postgres",)

NO_TOKEN, NO_EPOCH = "CAST(-1 AS bigint) AS token", "0 AS epoch"
NO_TIME = "CAST(NULL AS double precision)"
SELECTED = r"(?s)(\nSELECT (?:(?!\nFROM).)*?)"
MOVED = r"(?s)(moved AS \(\s*SELECT .*?)"

MARKS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "records.complete": (SELECTED + r"\b", r"\g<1>", (f"{RECORDED}[postgres-complete]",)),
    "records.complete_step": (SELECTED + r"\b", r"\g<1>", (f"{RECORDED}[postgres-complete_step]",)),
    "records.complete_partly": (SELECTED + r"\b", r"\g<1>", (f"{RECORDED}[postgres-complete_partly]",)),
    "records.hand_over": (r"lease\.", "", (f"{RECORDED}[postgres-hand_over]",)),
    "records.reschedule": (r"lease\.", "", (f"{RECORDED}[postgres-reschedule]",)),
    "records.park": (r"lease\.", "", (f"{RECORDED}[postgres-park]",)),
    "records.stop": (r"lease\.", "", (f"{RECORDED}[postgres-stop]",)),
    "leases.promote": (MOVED + r"\b", r"\g<1>", (f"{MOVED_ON}[postgres-promote]",)),
    "limits.release": (MOVED + r"\b", r"\g<1>", (f"{MOVED_ON}[postgres-release]",)),
    "runs.cancel_idle": (
        SELECTED + r"\b",
        r"\g<1>",
        (f"{MOVED_ON}[postgres-cancel_idle, ready]", f"{MOVED_ON}[postgres-cancel_idle, waiting]"),
    ),
    "replays.restart": (r"run\.", "", (f"{MOVED_ON}[postgres-restart]",)),
    "replays.resume": (r"run\.", "", (f"{MOVED_ON}[postgres-resume]",)),
}
"""For each statement: the pattern in front of the moved column, its replacement, and the tests."""


def _marks() -> Iterator[Guard]:
    for statement, (before, kept, tests) in MARKS.items():
        name = statement.partition(".")[2]
        yield Guard(
            f"{name}.keeps the token",
            "when the response is lost, the worker takes a written record for a lost one",
            (Sql(statement, before + r"token(?=,)", kept + NO_TOKEN, POSTGRES),),
            tests,
        )
        yield Guard(
            f"{name}.keeps the epoch",
            "the worker takes a written record for a lost one, and two attempts have the same fencing epoch",
            (Sql(statement, before + r"epoch(?=,)", kept + NO_EPOCH, POSTGRES),),
            tests,
        )


def _cancelled() -> Iterator[Guard]:
    """A cancelled run stays cancelled in every table."""
    for statement in (
        "complete",
        "complete_step",
        "complete_partly",
        "hand_over",
        "reschedule",
        "park",
        "stop",
    ):
        before, kept, _ = MARKS[f"records.{statement}"]
        yield Guard(
            f"{statement}.keeps the cancellation",
            "a request to cancel is lost",
            (
                Sql(
                    f"records.{statement}",
                    before + r"cancel_requested_at(?=,)",
                    kept + f"{NO_TIME} AS cancel_requested_at",
                    POSTGRES,
                ),
            ),
            (f"{CANCELLED}[postgres-{statement}]",),
        )
    yield Guard(
        "claim.keeps the cancellation",
        "a cancelled run is executed anyway",
        (Sql("leases.claim", r"(?<=SELECT submitted_at, sort_key, )cancel_requested_at", NO_TIME, POSTGRES),),
        (f"{CANCELLED}[postgres-hand_over]", f"{CANCELLED}[postgres-reschedule]"),
    )


def _one_table() -> Iterator[Guard]:
    for statement, into_ready, into_idle in (
        ("records.reschedule", "waiting", "ready"),
        ("records.park", "held", "cancelled"),
        ("leases.promote", "alone", "ready"),
        ("limits.release", "alone", "ready"),
    ):
        name = statement.partition(".")[2]
        for table, sign, caught in (("ready", "=", into_ready), ("idle", "<>", into_idle)):
            yield Guard(
                f"{name}.into {table}",
                "a run is in two tables and is executed twice",
                (Sql(statement, rf"(?<=FROM moved WHERE )place {sign} 'ready'", ALWAYS, POSTGRES),),
                (f"{ONE_TABLE}[{name}, {caught}]",),
            )


COUNTS = (
    "failures",
    "rate_limit_waits",
    "holds",
    "losses",
    "isolated_crashes",
    "isolation",
    "replays",
    "redrives",
    "step_only",
    "has_letter",
)

FLAGS = ("step_only", "has_letter")


def _counts() -> Iterator[Guard]:
    """A finished run stores no zeros."""
    for name in COUNTS:
        yield Guard(
            f"runs view.{name}",
            f"a finished run has NULL instead of 0 in {name}",
            (Schema(f"COALESCE({name}, 0) AS {name}", name),),
            (f"{NEVER_COUNTED}[postgres-{name}]",),
        )
        yield Guard(
            f"failed.{name}",
            f"a failed run cannot be loaded because its {name} is NULL",
            (Sql("leases.failed", rf"COALESCE\(run\.{name}, 0\)", f"run.{name}", POSTGRES),),
            () if name in FLAGS else (f"{TAKEN_UP}[{name}]",),
            doubled_by="reading the row, which treats a missing flag as False" if name in FLAGS else "",
        )


GUARDS = (*_marks(), *_cancelled(), *_one_table(), *_counts())
