"""Guards of stored events: of their replays and rebuilds, and of what retention removes."""

from __future__ import annotations

from tests.guards.guard import Guard
from tests.guards.patch import Code, Schema, Sql

FINDING = "tests/events/test_finding.py::"
REPLAYS = "tests/events/test_replays.py::"
REBUILDS = "tests/events/test_rebuilds.py::"
RETENTION = "tests/events/test_retention.py::"
STORE = "tests/store/test_event_runs.py::"
UNSETTLED = f"{STORE}test_no_run_follows_one_that_has_not_settled"
UNFINISHED, LIVE = r"run\.place <> 'ended'", r"letter\.state IN \('OPEN', 'REPLAYING', 'EXHAUSTED'\)"
WAITING = r"projection\.waits = 0"
UNFINISHED_REBUILD = r"rebuild\.state IN \('RUNNING', 'PAUSED', 'STOPPED'\)"
REBUILT = f"{RETENTION}test_a_stream_that_is_rebuilt_keeps_its_events"
NEVER = "1 = 0"


def _both(test: str, which: str = "") -> tuple[str, ...]:
    return tuple(f"{test}[{side}-{which}]" if which else f"{test}[{side}]" for side in ("sqlite", "postgres"))


GUARDS = (
    Guard(
        "follow.former run",
        "a replay that has seen an older run starts another one",
        (Sql("event_runs.follow", r"projection\.run_id = (?:batch\.old_run_id|\?\d+)"),),
        _both(f"{STORE}test_a_run_follows_the_run_that_the_caller_has_seen"),
    ),
    Guard(
        "follow.unfinished run",
        "a projector processes an event twice at once",
        (Sql("event_runs.follow", UNFINISHED, NEVER),),
        _both(UNSETTLED, "unfinished"),
    ),
    Guard(
        "follow.live dead letter",
        "a rebuild executes an event whose dead letter may be replayed, too",
        (Sql("event_runs.follow", LIVE, NEVER),),
        (*_both(UNSETTLED, "dead"), *_both(f"{REBUILDS}test_an_event_with_unfinished_work_is_skipped")),
    ),
    Guard(
        "follow.waiting",
        "a replay overtakes an undecided entry of an ordered stream",
        (Sql("event_runs.follow", WAITING),),
        _both(UNSETTLED, "waiting"),
    ),
    Guard(
        "rebuild.running",
        "a driver continues a rebuild that was paused or cancelled meanwhile",
        (Sql("rebuilds.lock_running", "state = 'RUNNING'"),),
        _both(f"{REBUILDS}test_a_driver_that_has_looked_before_a_pause_starts_nothing"),
    ),
    Guard(
        "rebuild.one at a time",
        "two rebuilds of a projector mix up the order of the events",
        (Schema("CREATE UNIQUE INDEX rebuilds_unfinished", "CREATE INDEX rebuilds_unfinished"),),
        _both(f"{REBUILDS}test_a_projector_has_one_unfinished_rebuild"),
    ),
    Guard(
        "rebuild.stop",
        "a rebuild makes a dead letter of every event of a stream",
        (
            Code(
                "redrive.events.rebuild_driver:RebuildDriver._advance",
                "if failures >= rebuild.max_failures:",
                "if False:",
            ),
        ),
        _both(f"{REBUILDS}test_a_rebuild_stops_when_the_projector_fails"),
    ),
    Guard(
        "key of further runs",
        "a further run of a projector repeats an effect under another idempotency key",
        (Code("redrive.model.step:step_key", "if is_key_of_further_run(idempotency_key):", "if False:"),),
        _both(f"{REBUILDS}test_the_key_for_effects_is_that_of_the_first_execution"),
    ),
    Guard(
        "keys of callers",
        "a caller starts two runs whose steps share an idempotency key",
        (
            Code(
                "redrive.engine.enqueue:_checked_key",
                "if text is not None and is_key_of_further_run(text):",
                "if False:",
            ),
        ),
        _both(f"{REPLAYS}test_no_run_of_a_caller_may_look_like_a_further_run"),
    ),
    *(
        Guard(
            f"retention.{name}",
            f"an event is removed while {what}",
            tuple(Sql(f"event_runs.{part}", pattern, replacement) for part in ("expired", "remove")),
            catchers,
        )
        for name, what, pattern, replacement, catchers in (
            ("unfinished run", "a run is unfinished", UNFINISHED, NEVER, _both(UNSETTLED, "unfinished")),
            ("live dead letter", "its dead letter is live", LIVE, NEVER, _both(UNSETTLED, "dead")),
            ("waiting", "its projection waits", WAITING, "1 = 1", _both(UNSETTLED, "waiting")),
            ("rebuild", "its stream is being rebuilt", UNFINISHED_REBUILD, NEVER, _both(REBUILT)),
        )
    ),
    Guard(
        "retention.lock",
        "retention removes an event for which a replay starts a run at the same time",
        (Sql("event_runs.lock", "FOR UPDATE OF event", "", sides=("postgres",)),),
        (f"{STORE}test_retention_passes_over_events_that_a_replay_has_locked[postgres]",),
    ),
    Guard(
        "finding events.org",
        "an org finds the events of another org",
        (Code("redrive.store.event_filter:EventFilter.of", '"event.org = :org", ', '"1 = 1", '),),
        _both(f"{FINDING}test_another_org_finds_nothing_w13"),
    ),
)
