"""Every statement of the store that must filter by org, except statements about runs, and its parameters.

The test executes each statement twice: for an org that knows all ids but owns none, and for the owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.guards.guard import Guard
from tests.guards.patch import Sql

OWNER, STRANGER = "a", "b"
_COLUMN = r"(?<![\w.])(?:(?:\w+\.)?org|\((?:\w+\.)?org \|\| ''\))"
ORG = rf"{_COLUMN} = (?:batch\.org|[?$]\d+|ANY\(CAST\(\$\d+ AS text\[\]\)\))"
TEST = "tests/guards/test_org_filters.py::test_data_of_another_org_does_not_exist_w13"

FINGERPRINT = "v1:" + "0" * 40
RUN, LETTER = "0" * 31 + "1", "letter"
SUCCEEDED_RUN, READY_RUN = "0" * 31 + "2", "0" * 31 + "3"
CLOSED_RUN, CLOSED = "closed run", "closed letter"
ORPHAN, GONE_RUN = "orphan", "gone run"
"""A dead letter whose run was removed."""
OPERATION, KEY, QUEUE = "operation", "key~2", "dlq:mail"
USER, API_KEY, ENDED_KEY = "user", "api key", "ended key"

EVENT, STREAM = "0" * 31 + "4", "orders"
PROJECTED, REBUILD = "0" * 31 + "5", "0" * 31 + "6"

COMMON: Mapping[str, Any] = {
    "id": LETTER,
    "letter_id": LETTER,
    "ids": f'["{LETTER}"]',
    "run_id": RUN,
    "depends_on": CLOSED,
    "fingerprint": FINGERPRINT,
    "key": KEY,
    "queue": QUEUE,
    "step_index": 0,
    "from_step": 0,
    "state": "OPEN",
    "before": "OPEN",
    "by": "ana",
    "reason": "why",
    "most": 10,
    "size": 10,
    "look": 10,
    "place": 1e18,
    "since": 0.0,
    "seconds": 1e10,
    "width": 1e10,
    "pattern": None,
    "first": FINGERPRINT,
    "beyond": FINGERPRINT + "~",
    "sequence": 9,
    "hash": "h",
    "after": 0,
    "last": 9,
    "until": None,
    "action": None,
    "actor": None,
    "subject": LETTER,
    "quoted": f'"{LETTER}"',
    "requested_by": "ana",
    "mode": "FROM_STEP",
    "automatic": 0,
    "step_only": 0,
    "step_input": None,
    "policy_override": None,
    "regressed": 0,
    "workflow": "greet",
    "definition": "digest",
    "priority": 0,
    "input": "{}",
    "request_hash": "hash",
    "tags": None,
    "metadata": None,
    "token": 1,
    "worker": "w",
    "code_version": "v1",
    "note_id": "note 2",
    "author": "ana",
    "body": "text",
    "assignee": "ana",
    "sample": LETTER,
    "ignored_until": None,
    "ignored_beyond": None,
    "ignored_version": None,
    "user_id": USER,
    "role": "ADMIN",
    "active": 0,
    "which": API_KEY,
    "name": "ana",
    "grace": 60.0,
    "lifetime": None,
    "domain": "http",
    "lease_seconds": 60.0,
    "ttl": 60.0,
    "response": "null",
    "error": "null",
}

_SAVED = {
    "id": OPERATION,
    "options": "{}",
    "released": 0,
    **dict.fromkeys(
        ("started_by", "started_at", "released_at", "ramped_at", "ended_at", "stopped_because"), None
    ),
}
_START = "0" * 32
_REPORTED = {
    "generation": 1,
    "last_position": _START,
    **dict.fromkeys(("stored", "duplicates", "dead", "taken_over"), 1),
    **dict.fromkeys(("lag", "pending", "oldest_at", "rate", "held_back", "last_error", "error_at", "seen")),
}
_PROJECTION = {"event_id": PROJECTED, "projector": "invoice", "version": 1}
_REBUILT = {"stream": "rebuilt", "projector": "invoice", "version": 1}
_FROM_START = {
    "generation": -1,
    "position": _START,
    "event_id": _START,
    "end_generation": 9,
    "end_position": "f" * 32,
    "end_event_id": "f" * 32,
}
_SAVED_REBUILD = {
    "id": REBUILD,
    "state": "PAUSED",
    "seen": 1,
    "started": 1,
    "skipped": 0,
    "resumed_at": 2.0,
    "released_at": 2.0,
    "ended_at": None,
    "stopped_because": None,
    **_FROM_START,
}
_OF_STREAM = {"name": STREAM, "identity": "new", "before": "old", "start": _START, "reader": "r"}
TRESPASSES: Mapping[str, Mapping[str, Any]] = {
    "event_listing.records": {"event_ids": f'["{EVENT}"]'},
    "event_listing.of_run": {"run_id": READY_RUN},
    "event_listing.streams": {},
    "event_runs.lock": {"id": EVENT},
    "event_runs.runs": _PROJECTION,
    "event_runs.follow": {**_PROJECTION, "old_run_id": SUCCEEDED_RUN, "run_id": RUN},
    "event_runs.expired": {"stream": STREAM, "types": '["paid"]', "age": 0.0},
    "event_runs.remove": {"id": PROJECTED},
    "event_runs.remove_projections": {"id": PROJECTED},
    "event_runs.types": {},
    "rebuilds.get": {"id": REBUILD},
    "rebuilds.lock": {"id": REBUILD},
    "rebuilds.save": _SAVED_REBUILD,
    "rebuilds.unfinished": _REBUILT,
    "rebuilds.page": {"at": 9e9, "id": REBUILD},
    "rebuilds.last": {"stream": STREAM},
    "rebuilds.count": {"stream": STREAM},
    "rebuilds.next_events": {"stream": STREAM, **_FROM_START},
    "events.get": {"id": EVENT},
    "events.of_key": {"stream": STREAM, "dedupe_key": "once"},
    "events.page": {"stream": STREAM, "generation": -1, "position": _START, "id": _START},
    "events.newest": {"stored_at": 9e9, "id": EVENT},
    "events.records": {"event_id": EVENT},
    "events.release": {"event_id": EVENT, "projector": "invoice", "version": 1},
    "outbox.take": {"topic": "topic"},
    "outbox.remove": {"topic": "topic", "key": "key", "version": 1},
    "outbox.count": {"topic": "topic"},
    "streams.get": _OF_STREAM,
    "streams.all": {},
    "streams.begin_generation": _OF_STREAM,
    "streams.take_reader": {**_OF_STREAM, "token": 7},
    "streams.hold_reader": _OF_STREAM,
    "streams.release_reader": _OF_STREAM,
    "streams.report": {**_OF_STREAM, **_REPORTED},
    "streams.add_gap": {**_OF_STREAM, "before": "[]", "gaps": "[1]"},
    "streams.pause": _OF_STREAM,
    "streams.resume": {**_OF_STREAM, "name": "paused"},
    "streams.buried": {"stream": STREAM, "generation": 1, "position": _START},
    "dead_letters.get": {},
    "dead_letters.of_run": {},
    "dead_letters.lines": {},
    "dead_letters.fingerprints": {},
    "dead_letters.lock_runs": {},
    "dead_letters.lock": {},
    "dead_letters.standing": {},
    "dead_letters.close": {"state": "RESOLVED"},
    "dead_letters.reopen": {"id": CLOSED},
    "dead_letters.assign": {},
    "dead_letters.tag": {"tags": '["x"]'},
    "dead_letters.note": {},
    "dead_letters.notes": {},
    "dead_letters.unlink": {},
    "dead_letters.depends": {},
    "dead_letters.dependencies": {},
    "dead_letters.counts": {},
    "dead_letters.figures": {},
    "groups.come_back": {},
    "groups.find": {},
    "groups.lock": {},
    "groups.versions": {},
    "groups.replays": {},
    "groups.over_time": {},
    "groups.change": {"state": "RESOLVED"},
    "groups.open_letters": {},
    "groups.sample": {},
    "groups.newest": {},
    "groups.records": {},
    "groups.spread": {},
    "audit.lock_head": {},
    "audit.save_head": {},
    "audit.end": {},
    "audit.following": {},
    "audit.after": {},
    "audit.page": {"before": 9, "since": None},
    "audit.page_about": {"before": 9, "since": None},
    "audit.page_of_action": {"before": 9, "since": None, "action": "dead_letter.tagged"},
    "audit.page_by_actor": {"before": 9, "since": None, "actor": "ana"},
    "audit.batches_about": {},
    "bulk_replays.freeze_ids": {"id": "another operation"},
    "bulk_replays.unknown_ids": {},
    "bulk_replays.save": _SAVED,
    "bulk_replays.get": {"id": OPERATION},
    "bulk_replays.lock": {"id": OPERATION},
    "bulk_replays.newest": {},
    "bulk_replays.under_way": {},
    "bulk_replays.reached": {},
    "bulk_replays.progress": {"ids": f'["{OPERATION}"]'},
    "bulk_replays.older": {"cursor": "newer operation"},
    "bulk_replays.items": {"id": OPERATION, "after": OPERATION, "last": OPERATION + "~"},
    "bulk_replays.items_in_state": {"id": OPERATION, "state": "PLANNED", "position": 0},
    "payloads.of_letter": {},
    "verdict_facts.letter": {},
    "verdict_facts.successes": {},
    "verdict_facts.occurrences": {"id": CLOSED},
    "verdict_facts.failing": {},
    "verdict_facts.replays": {},
    "verdict_facts.waits_for": {"depends_on": CLOSED},
    "attempt_history.numbers": {"after": ""},
    "attempt_history.tried": {"after": ""},
    "attempt_history.succeeded": {"after": ""},
    "attempt_history.definitions": {},
    "external_failures.live": {},
    "external_failures.lock_known": {},
    "external_failures.lock_numbered": {"numbered_key": "key~"},
    "external_failures.newest_letter": {},
    "external_failures.take_again": {},
    "external_failures.find": {},
    "external_failures.page": {},
    "external_failures.lock_removable": {},
    "external_failures.clear_runs": {},
    "external_failures.count_gone": {},
    "external_failures.clear_replays": {},
    "external_failures.clear_letters": {},
    "automatic_redrive.counts": {},
    "automatic_redrive.figures": {},
    "replays.restart": {"queue": None},
    "replays.resume": {"run_id": CLOSED_RUN, "queue": None},
    "replays.mark_replaying": {},
    "replays.get": {"id": "replay"},
    "replays.of_letter": {},
    "replays.of_run": {},
    "tallies.standing": {},
    "tallies.flow": {"start": 0, "width": 300},
    "tallies.occurred": {"start": 0, "width": 3600},
    "run_listing.depths": {},
    "idempotency.find": {},
    "idempotency.renew_if_held": {},
    "idempotency.complete_if_held": {},
    "idempotency.fail_if_held": {},
    "idempotency.release_if_held": {},
    "idempotency.rewrite": {"key": ENDED_KEY},
    "api_keys.find": {},
    "api_keys.lock": {},
    "api_keys.newest": {},
    "api_keys.older": {"before": "~"},
    "api_keys.rotate": {"id": API_KEY},
    "api_keys.revoke": {"id": API_KEY},
    "one_time.drop_made_by_key": {},
    "memberships.find": {"id": USER},
    "memberships.page": {"after": ""},
    "memberships.change": {},
    "memberships.remove": {},
    "memberships.other_owners": {"user_id": "another"},
}
"""The parameters of each statement in addition to `COMMON`."""

_OWN_ID = "the same transaction has created the id, or has read it for the org"
_ALL_ORGS = "workers serve every org"
_ALL_KEYS = "all orgs share the encryption keys"
_EVERYWHERE = "accounts belong to all orgs; memberships decide where an account may act"
_SHOWN = "the org of a caller is not known before the secret is verified"
_OWN_USER = "it lists the orgs of the user who asks"
_OF_ITS_STREAM = "a consumer names the organizations of its stream, which the application declares"
EXCEPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("events.insert", "events.project", "outbox.put"), "it writes the org"),
    **dict.fromkeys(("event_runs.begin", "rebuilds.insert"), "it writes the org"),
    **dict.fromkeys(("rebuilds.running", "rebuilds.lock_running", "rebuilds.executing"), _ALL_ORGS),
    **dict.fromkeys(("streams.ensure", "streams.bury"), "it writes the org"),
    **{
        f"events.{name}": _OF_ITS_STREAM
        for name in ("waiting", "count_waiting", "unfinished", "unfinished_waiting")
    },
    "dead_letters.link": "the caller has locked both dead letters for the org before",
    "dead_letters.by_state": "totals of the whole installation, for the home org",
    "run_listing.overall_depths": "totals of the whole installation, for the home org",
    "groups.occur": "it writes the org",
    "groups.occur_in_version": "it writes the org",
    "groups.no_longer_ignored": _ALL_ORGS,
    "audit.ensure_head": "it creates the head of an org that has none",
    "audit.insert_entry": "it writes the org",
    "bulk_replays.insert": "it writes the org",
    "bulk_replays.running": _ALL_ORGS,
    "bulk_replays.lock_running": _ALL_ORGS,
    "external_failures.insert": "it writes the org",
    "dead_letter_writer.count_refused": "it writes the org",
    **dict.fromkeys(("dead_letter_writer.sum_up_counts", "dead_letter_writer.sum_up_figures"), _ALL_ORGS),
    "tallies.count_ended": "it writes the org",
    **dict.fromkeys(("tallies.sum_up", "tallies.remove_expired"), _ALL_ORGS),
    **{
        f"external_failures.clear_{name}": "it removes rows left behind by clear_runs, which filters by org"
        for name in ("notes", "dependencies", "attempts", "steps", "events")
    },
    "external_failures.give_up_key": _OWN_ID,
    **{f"automatic_redrive.{name}": _ALL_ORGS for name in ("due", "next_due", "lock_due", "archive")},
    **{f"automatic_redrive.{name}": _ALL_ORGS for name in ("heartbeat", "processors", "forget_processors")},
    **{f"payloads.stale_{name}": _ALL_KEYS for name in ("runs", "steps", "attempts", "events")},
    **{f"payloads.rewrite_{name}": _ALL_KEYS for name in ("run", "step", "attempt", "event")},
    "idempotency.acquire": "it writes the org; the org is part of the unique key",
    "idempotency.remove_expired": "expiry is the same for every org",
    "idempotency.stale": _ALL_KEYS,
    "api_keys.insert": "it writes the org",
    **dict.fromkeys(("api_keys.known", "api_keys.touch"), _SHOWN),
    "api_keys.any_credential": "it covers the whole installation",
    "memberships.insert": "it writes the org",
    **{f"memberships.{name}": _OWN_USER for name in ("owned_by", "roles", "standings")},
    **{f"sessions.{name}": _SHOWN for name in ("known", "touch", "move", "end")},
    **{f"sessions.{name}": _EVERYWHERE for name in ("insert", "end_one", "end_others", "of_user")},
    **{f"one_time.{name}": _SHOWN for name in ("insert", "user_of", "take")},
    **{f"one_time.{name}": _EVERYWHERE for name in ("drop_of_user", "drop_made_by")},
    **dict.fromkeys(("sessions.remove_expired", "one_time.remove_expired"), _ALL_ORGS),
    **{
        f"users.{name}": _EVERYWHERE
        for name in (
            *("insert", "get", "named", "lock", "identified", "identify", "set_password"),
            *("renew_password_if_same", "disable", "enable", "adopt"),
        )
    },
    **{
        f"organizations.{name}": "the row is the org itself; the engine checks who may see it"
        for name in ("insert", "lock", "get", "page")
    },
    **{
        f"replays.{name}": _OWN_ID
        for name in (
            *("keep_successes", "forget_steps", "insert", "pick", "refuse", "situation"),
            *("close", "settle", "live", "known", "lock_letters", "reopen"),
        )
    },
    **{
        f"bulk_replays.{name}": _OWN_ID
        for name in (
            *("obstacles", "refuse", "skip_unsafe", "refuse_blocked", "cancel_planned"),
            *("taken", "failed_as", "override"),
            *("members", "effects", "stations", "breakers", "paused_queues", "awaited_letters", "tally"),
            *("depending", "planned", "counts", "notes", "failures", "span"),
        )
    },
}
"""Statements that do not filter by org, and why."""

MODULES = tuple(sorted({name.partition(".")[0] for name in (*TRESPASSES, *EXCEPTIONS)}))

GUARDS = tuple(
    Guard(
        f"{name}.org",
        f"an org reaches another org's data through {name}",
        (Sql(name, ORG),),
        (f"{TEST}[sqlite-{name}]", f"{TEST}[postgres-{name}]"),
    )
    for name in TRESPASSES
)
