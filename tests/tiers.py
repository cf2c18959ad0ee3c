"""The tiers of the tests.

make test      what every change must pass, in minutes: each promise once
make test-all  everything: both databases everywhere, every page in a browser, packages, the demo

`store` is the contract of both databases, so it runs on both in either tier. Elsewhere, `make test` takes the
variant on SQLite. What moves to `make test-all` is listed here and nowhere else.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import PurePosixPath

import pytest

BOTH_DATABASES = ("store", "guards", "crash", "simulation", "verify")
"""Folders whose tests run on both databases in either tier."""

BOTH_DATABASES_FILES = ("tests/journeys/test_worker_lost.py",)
"""Leases depend on the clock and the locks of the database.

A worker that stops gives its leases back; `store` tests that write on both databases.
"""

SECOND = frozenset({"postgres", "postgres sealed", "postgresql", "pooled", "server"})
"""Parameters of fixtures that stand for the same on another database or over another way."""

EVERYTHING_ONLY = (
    # Every page in every width and colour; make test keeps ten journeys through the pages.
    "tests/browser/*",
    # Real clusters of PostgreSQL.
    "tests/cluster/*",
    # Campaigns beyond one per database.
    "tests/crash/test_crash.py::test_every_promise_is_kept*",
    "tests/crash/test_crash.py::test_without_fences_*",
    "tests/journeys/test_replaying.py::test_every_dead_letter_of_a_bulk_replay_is_replayed_once_*",
    "tests/journeys/test_replaying.py::test_a_paused_bulk_replay_rests_through_*",
    "tests/journeys/test_gateway.py::test_an_outage_of_many_cool_downs_*",
    "tests/journeys/test_gateway.py::test_nothing_is_dispatched_while_*",
    "tests/journeys/test_database_away.py::test_all_connections_are_cut_*",
    "tests/journeys/test_unwell.py*",
    "tests/journeys/test_cut_off.py*",
    "tests/journeys/test_stopping.py::test_a_claim_that_a_stop_interrupts_*",
    "tests/journeys/test_worker_lost.py::test_a_worker_is_killed_*?postgres-charge_in_thread?",
    # Long searches for a counterexample, hard timeouts, and how time grows with size.
    "tests/policy/test_breaker_shared.py::TestSharedBreaker*",
    "tests/policy/test_breaker.py::TestBreakerModel*",
    "tests/engine/test_endings.py::test_whatever_happens_*",
    "tests/engine/test_memory.py::test_a_hundred_payloads_*",
    "tests/engine/test_process.py::test_the_timeout_is_a_hard_one?spin?",
    "tests/engine/test_process.py::test_the_timeout_is_a_hard_one?spin_in_c?",
    "*::test_the_time_grows_*",
    "*::test_what_varies_does_not_split_a_group",
    "tests/policy/test_codec.py::test_the_work_grows_*",
    "tests/policy/test_clean_json.py::test_a_snapshot_is_the_same_*",
    "*::test_a_hundred_thousand_*",
    "*::test_an_operation_has_at_most_a_hundred_thousand_items*",
    # Whole programs: the demo, installed packages, images, shell stories.
    "tests/demo/*",
    "tests/packaging/*",
    "tests/docs/test_start.py*",
    "tests/docs/test_shell.py*",
    "tests/test_pytest_plugin.py*",
    "tests/cli/*_terminal*",
    "tests/cli/*_is_asked_with_*",
    "tests/cli/test_breaker.py::test_closing_asks_*",
    "tests/cli/test_dlq_replay.py::test_interrupted_while_it_waits*",
    "tests/cli/test_dlq_replay.py::test_the_question_comes_after_the_verdict*",
    "tests/cli/test_replay.py::test_starting_asks_*",
    "tests/server/test_metrics_api.py::test_without_prometheus_*",
    "tests/store/test_migration.py::test_several_processes_*",
    "tests/test_forking.py::test_a_child_that_ends_*",
    "tests/test_forking_servers.py*",
    "tests/store/test_silent_hosts.py::test_a_frozen_server_*?transaction?",
    "tests/journeys/test_idempotency.py*",
    "tests/journeys/test_deploy.py*",
    "tests/docs/test_site.py*",
    "tests/cli/test_awkward.py*",
    "tests/cli/test_dlq_access.py*",
    "tests/cli/test_serve.py*",
    "tests/cli/test_worker.py*",
    # Processes that read streams.
    "tests/streams/test_commands.py*",
    "tests/streams/test_topologies.py*",
    "tests/streams/test_crashes.py::*-user?",
    # Clients of language models are thousands of modules; make test asks one model in test_classify.py.
    "tests/policy/test_classify_clients.py::*[[-]openai_*",
    "tests/policy/test_classify_clients.py::*[[-]anthropic_*",
    # Type checkers and a language server on programs of users.
    "tests/typing/*",
    "tests/docs/test_comparison.py::*mypy*",
    "tests/docs/test_comparison.py::*types*",
    # Hostile suites and generated requests; make test asks every route in the name of one organization.
    "tests/server/test_matrix.py::test_every_route_for_everyone*-acme?",
    "tests/server/test_schemathesis.py*",
    "tests/server/test_hostile_network.py*",
    "tests/server/test_hostile_browser.py*",
    "tests/server/test_hostile_canaries.py*",
    "tests/server/test_stored_secrets.py*",
    "tests/test_hostile_queue.py*",
    # Tests of the tools that test: they change less often than what they test.
    "tests/crash/test_crash.py::test_what_is_wrong_with_replays_is_found*",
    "tests/server/test_matrix.py::test_another_rule_would_be_noticed*",
    "tests/simulation/test_machinery.py::test_a_missing_guard_is_found_*",
    "tests/simulation/test_machinery.py::test_a_seed_always_gives_*",
    "tests/simulation/test_machinery.py::test_a_violation_says_how_*",
    "tests/simulation/test_machinery.py::test_another_python_process_*",
    # Proofs that have commands of their own: make simulate, make guards.
    "tests/simulation/test_agreement.py*",
    "tests/simulation/test_simulation.py::*?[123]?",
    "tests/guards/test_switches.py::test_its_absence_is_noticed*",
)

ALSO_IN_TEST = (
    "tests/browser/test_journeys.py::test_find_out_whether_it_heals_itself",
    "tests/browser/test_journeys.py::test_replay_one_by_four_keys",
    "tests/browser/test_journeys.py::test_a_canary_replay_stops_itself_and_is_resumed_after_the_fix",
    "tests/browser/test_journeys.py::test_what_was_closed_is_undone_by_one_key?e-*",
    "tests/browser/test_journeys.py::test_what_is_selected_is_what_is_done_and_the_number_is_told",
    "tests/browser/test_journeys.py::test_a_viewer_sees_no_controls_*?viewer?",
    "tests/browser/test_journeys.py::test_the_banner_of_a_breaker_appears_and_goes",
    "tests/browser/test_journeys.py::test_news_arrives_without_moving_a_row",
    "tests/browser/test_journeys.py::test_a_deep_link_leads_through_signing_in",
    "tests/browser/test_journeys.py::test_a_failed_run_is_retried_from_its_page",
    "tests/browser/test_chromium.py*",
    "tests/journeys/test_unwell.py::test_sigterm_ends_*?sqlite?",
    "tests/journeys/test_unwell.py::test_a_short_block_*?sqlite?",
    "tests/server/test_stored_secrets.py::*?sqlite-some?",
    "tests/server/test_stored_secrets.py::*?sqlite manual?",
    "tests/server/test_stored_secrets.py::test_the_*",
    "tests/crash/test_crash.py::test_every_promise_is_kept?sqlite-kill?",
    "tests/crash/test_crash.py::test_every_promise_is_kept?postgresql-kill?",
)
"""Exceptions from the list above."""


PROOF_ONLY = (
    # It adds network interfaces; Chromium then breaks off what it loads for the tests beside it.
    "tests/cluster/test_cluster.py::test_a_cut_that_cuts_nothing_is_found_out",
)
"""Tests that only `make cluster` runs, a part of `make proof`."""


def belongs_to(item: pytest.Item, tier: str) -> bool:
    """Whether it is a test of the tier "test" or "rest"."""
    return item.nodeid not in PROOF_ONLY and _belongs_to_test(item) == (tier == "test")


def _belongs_to_test(item: pytest.Item) -> bool:
    name = item.nodeid
    if any(fnmatch(name, pattern) for pattern in ALSO_IN_TEST):
        return True
    if any(fnmatch(name, pattern) for pattern in EVERYTHING_ONLY):
        return False
    return not _repeats_on_another_database(item)


def is_left_out_of_test(path: str) -> bool:
    """Whether `make test` runs nothing of a file, so that it need not be imported."""
    if any(pattern.startswith(path) for pattern in ALSO_IN_TEST):
        return False
    return any(fnmatch(path, pattern) for pattern in EVERYTHING_ONLY if "::" not in pattern)


def _repeats_on_another_database(item: pytest.Item) -> bool:
    path = PurePosixPath(item.nodeid.partition("::")[0])
    if path.parts[1] in BOTH_DATABASES or str(path) in BOTH_DATABASES_FILES:
        return "pooled" in _parameters(item)
    return not SECOND.isdisjoint(_parameters(item))


def _parameters(item: pytest.Item) -> set[str]:
    called = getattr(item, "callspec", None)
    return set() if called is None else {value for value in called.params.values() if isinstance(value, str)}
