"""Guards of streams: of acknowledgements, dedupe keys, readers, mirrors and organizations."""

from __future__ import annotations

from tests.guards.guard import Guard
from tests.guards.patch import Code, Schema, Sql

CONSUMER = "tests/streams/test_consumer.py::"
INVALID = "tests/streams/test_invalid_entries.py::"
ORDER = "tests/streams/test_order.py::"
FAILURES = "tests/streams/test_failures.py::"
RECORDING = "tests/events/test_recording.py::"
OUTBOX = "tests/store/test_outbox.py::"


def _both(test: str) -> tuple[str, ...]:
    return tuple(f"{test}[{database}]" for database in ("sqlite", "postgres"))


GUARDS = (
    Guard(
        "acknowledge after commit",
        "an entry is acknowledged before its event is stored, and lost if the consumer dies",
        (
            Code(
                "redrive.streams.consumer:Consumer._store",
                "    try:\n        written = ",
                "    await commands.acknowledge([entry.message_id for entry in entries])\n"
                "    try:\n        written = ",
            ),
        ),
        _both(f"{CONSUMER}test_nothing_is_acknowledged_while_the_transaction_is_open_i12"),
    ),
    Guard(
        "one event per dedupe key",
        "an event that is delivered twice is stored and projected twice",
        (
            Schema("CREATE UNIQUE INDEX events_once", "CREATE INDEX events_once"),
            Sql("events.insert", r"ON CONFLICT \(org, stream, dedupe_key\) DO NOTHING", ""),
        ),
        _both(f"{CONSUMER}test_a_duplicate_is_stored_once_and_projected_once_g13"),
    ),
    Guard(
        "runs of new events only",
        "an event that is delivered twice is projected twice",
        (
            Code(
                "redrive.events.recorder:EventRecorder.write",
                " for event in prepared if event.row.id in new for run in event.runs",
                " for event in prepared for run in event.runs",
            ),
        ),
        _both(f"{CONSUMER}test_a_duplicate_is_stored_once_and_projected_once_g13"),
    ),
    Guard(
        "stream reader",
        "a reader of an ordered stream that was replaced stores entries out of order",
        (Sql("streams.hold_reader", r"reader_token = [?$]\d+"),),
        _both(f"{ORDER}test_a_reader_that_lost_its_lease_stores_nothing_i4"),
    ),
    Guard(
        "one stream reader",
        "two consumers read an ordered stream at a time",
        (Sql("streams.take_reader", r"reader_until IS NULL"),),
        _both(f"{ORDER}test_a_second_consumer_does_not_become_reader_while_the_lease_runs"),
    ),
    Guard(
        "order behind an undecided entry",
        "ordered runs of later entries start while an earlier entry is undecided",
        (
            Code(
                "redrive.events.recorder:EventRecorder.write",
                "if run.event_id in waiting and run.projector.ordered_by is not None",
                "if False",
            ),
        ),
        _both(f"{ORDER}test_events_behind_an_undecided_entry_wait_for_it_and_keep_their_order"),
    ),
    Guard(
        "release before an undecided entry only",
        "ordered runs are released while an earlier entry is undecided",
        (
            Code(
                "redrive.streams.consumer:Consumer._release",
                "END if first is None else first",
                "END",
            ),
        ),
        _both(f"{ORDER}test_events_behind_an_undecided_entry_wait_for_it_and_keep_their_order"),
    ),
    Guard(
        "one dead letter per entry",
        "an entry that is delivered again after it was dead-lettered gets a second letter",
        (
            Code(
                "redrive.events.ingest:EntryIngest.bury",
                "if not await parts.store.streams.bury(session, dead):",
                "if await parts.store.streams.bury(session, dead) is None:",
            ),
        ),
        _both(f"{INVALID}test_an_entry_that_was_buried_but_not_acknowledged_has_one_letter"),
    ),
    Guard(
        "mirror once",
        "a process that dies after it has mirrored a dead letter makes the next one mirror it again",
        (
            Code(
                "redrive.streams.commands:StreamCommands.mirror",
                "(str(now), key, str(forget_before))",
                "(str(now), key + str(id(fields)), str(forget_before))",
            ),
        ),
        _both(f"{INVALID}test_a_mirrored_letter_is_not_mirrored_again_after_a_crash_before_the_removal_g11"),
    ),
    Guard(
        "outbox.lease",
        "two processes deliver the same entry of the outbox",
        (Sql("outbox.take", r"available_at <= [^\n]+"),),
        _both(f"{OUTBOX}test_an_entry_is_taken_by_one_process_until_its_lease_expires"),
    ),
    Guard(
        "outbox.token",
        "a process whose lease was taken over removes an entry that another one delivers",
        (Sql("outbox.remove", r"(?:entry\.)?token = (?:batch\.token|[?$]\d+)"),),
        _both(f"{OUTBOX}test_a_process_that_lost_its_lease_removes_nothing"),
    ),
    Guard(
        "outbox.version",
        "the delivery of an old version removes a newer one, which is never delivered",
        (Sql("outbox.remove", r"(?:entry\.)?version = (?:batch\.version|[?$]\d+)"),),
        _both(f"{OUTBOX}test_a_newer_version_outlives_the_delivery_of_an_older_one"),
    ),
    Guard(
        "outbox.older version",
        "an older version replaces a newer one in the outbox",
        (Sql("outbox.put", r"outbox\.version < excluded\.version"),),
        _both(f"{OUTBOX}test_an_older_version_changes_nothing"),
    ),
    Guard(
        "foreign org of an entry",
        "an entry puts an event into an organization that its stream does not serve",
        (Code("redrive.events.stream:Stream.checked", "if org not in self.orgs:", "if False:"),),
        _both(f"{INVALID}test_an_entry_of_a_foreign_org_is_dead_lettered_in_the_streams_own_w13"),
    ),
    Guard(
        "orgs of recorded events",
        "a caller records events for another organization",
        (
            Code(
                "redrive.events.service:Events._prepared",
                "if event.org not in (None, org):",
                "if False:",
            ),
        ),
        _both(f"{RECORDING}test_an_event_of_another_org_is_refused_w13"),
    ),
    Guard(
        "stream generation",
        "entries of a Redis that came back empty count as duplicates of older ones with the same id",
        (
            Code(
                "redrive.streams.consumer:Consumer._prepare",
                "if identity is None and state.identity and await commands.has_group():",
                "if identity is None and state.identity:",
            ),
        ),
        _both(f"{FAILURES}test_a_redis_that_comes_back_empty_starts_a_generation_and_is_reported_as_a_gap"),
    ),
    Guard(
        "entries that kill are tried alone",
        "an entry that kills its consumers makes dead letters of the entries beside it",
        (
            Code(
                "redrive.streams.consumer:groups",
                "if counts.get(message_id, 1) > 1:",
                "if False:",
            ),
        ),
        _both(f"{INVALID}test_an_entry_that_kills_its_consumers_becomes_a_dead_letter_and_innocents_do_not"),
    ),
    Guard(
        "a consumer with pending entries stays",
        "a consumer is removed from its group with its pending entries, which are never delivered again",
        (
            Code(
                "redrive.streams.commands:StreamCommands.leave",
                "_LEAVE",
                "\"return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])\"",
            ),
        ),
        ("tests/streams/test_consumer.py::test_a_consumer_with_pending_entries_does_not_leave",),
    ),
)
