"""`redrive run`: list, view, watch, cancel, retry; on both databases, and against a server."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.shop import Shop


def ids(text: str) -> list[str]:
    return [line.split("\t")[0] for line in text.splitlines()]


def test_lists_the_newest_first(anywhere: Command, shop: Shop) -> None:
    first, second = shop.order(1), shop.order(2, card="declined")
    listed = anywhere("run", "list")
    assert (listed.code, ids(listed.out), listed.err) == (0, [second, first], "")
    assert ids(anywhere("run", "list", "is:failed", "workflow:checkout").out) == [second]
    assert ids(anywhere("run", "list", "--limit", "1").out) == [second]
    [row] = json.loads(anywhere("run", "list", "is:success", "-o", "json").out)
    assert (row["id"], row["state"], row["step"]) == (first, "SUCCESS", "ship")
    assert [json.loads(line)["id"] for line in anywhere("run", "list", "-o", "ndjson").out.splitlines()] == [
        second,
        first,
    ]
    table = list(csv.DictReader(io.StringIO(anywhere("run", "list", "-o", "csv").out)))
    assert [row["id"] for row in table] == [second, first]
    assert anywhere("run", "list", "is:cancelled", "-o", "json").out == "[]\n"


def test_a_row_says_which_run_it_is_and_why_it_failed(
    redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.message = "the gateway gives no answer\nat all"
    shop.order(1, card="slow", key="order-1")
    monkeypatch.setenv("COLUMNS", "160")
    heading, line = redrive("run", "list", "-o", "table").out.splitlines()
    assert re.search(r"  STEP  +ATTEMPT  KEY  +ERROR$", heading)
    assert re.search(r"  charge  +3  order-1  the gateway gives no answer$", line)
    assert redrive("run", "list").out.rstrip("\n").split("\t")[-2:] == [
        "order-1",
        "the gateway gives no answer",
    ]
    [row] = json.loads(redrive("run", "list", "-o", "json").out)
    assert (row["idempotency_key"], row["error_type"]) == ("order-1", "TimeoutError")
    assert row["error_line"] == "the gateway gives no answer"


@pytest.mark.parametrize("words", [["-is:failed"], ["-is:failed -is:cancelled"], ["--", "-is:failed"]])
def test_a_term_with_a_minus_is_no_option(redrive: Command, shop: Shop, words: list[str]) -> None:
    first = shop.order(1)
    shop.order(2, card="declined")
    listed = redrive("run", "list", "--limit", "5", *words)
    assert (listed.code, ids(listed.out)) == (0, [first])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("steps:charge", "unknown key 'steps'"),
        ("is:opened", "unknown value 'opened' of 'is' at position 4"),
        ("timeout", "put a key before it"),
    ],
)
def test_a_wrong_query_is_rejected_with_its_place(anywhere: Command, query: str, said: str) -> None:
    listed = anywhere("run", "list", query)
    assert (listed.code, listed.out) == (2, "")
    assert said in listed.err
    assert "Traceback" not in listed.err


def test_the_history_of_a_failed_run(anywhere: Command, shop: Shop) -> None:
    """P9, W14: every attempt with its reason; secrets stay redacted."""
    run_id = shop.order(7, card="slow")
    told = anywhere("run", "view", run_id)
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[0].split() == ["checkout", "needs", "attention"]
    for expected in (
        "2  charge   dead letter",
        "3 attempts",
        "charge failed and will be retried",
        "TimeoutError: the gateway gives no answer",
        "attempts are used up",
        "redrive dlq replay ",
        "[redacted:password]",
    ):
        assert expected in told.out
    assert "hunter2" not in told.out
    assert max(map(len, lines)) <= 80
    order = [told.out.rindex(word) for word in ("reserve started", "charge started", "attempt 3", "finished")]
    assert order == sorted(order)


def test_the_history_for_programs(anywhere: Command, shop: Shop) -> None:
    run_id = shop.order(7, card="slow")
    story = json.loads(anywhere("run", "view", run_id, "-o", "json").out)
    assert [step["state"] for step in story["steps"]] == ["SUCCESS", "DLQ", "PENDING"]
    assert [(each["step"], each["number"]) for each in story["attempts"]] == [
        ("reserve", 1),
        ("charge", 1),
        ("charge", 2),
        ("charge", 3),
    ]
    assert [story["events"][place]["what"] for place in (0, -1)] == ["queued", "finished"]
    assert json.loads(anywhere("run", "view", run_id, "-o", "ndjson").out) == story
    [row] = csv.DictReader(io.StringIO(anywhere("run", "view", run_id, "-o", "csv").out))
    assert (row["id"], row["state"]) == (run_id, "DLQ_PENDING")


def test_the_history_of_a_successful_run(redrive: Command, shop: Shop) -> None:
    told = redrive("run", "view", shop.order(7, key="order-7", tags=["vip"], correlation_id="c-1")).out
    assert "order 7 has left shelf A-7" in told
    for mark in ("key order-7", "tags vip", "correlation c-1"):
        assert mark in told
    assert "Next" not in told


def test_watching_a_run_that_succeeds(anywhere: Command, shop: Shop) -> None:
    run_id = shop.order(7, wait=False)
    with shop.working():
        watched = anywhere("run", "watch", run_id)
    assert watched.code == 0
    told = [line.split("  ")[-1] for line in watched.out.splitlines()]
    steps = ("reserve", "charge", "ship")
    assert [each.partition(": by ")[0] for each in told] == [
        "queued",
        *(f"{step} {what}" for step in steps for what in ("started", "succeeded")),
        "finished: succeeded",
    ]
    assert f"Run {run_id} finished after" in watched.err


def test_watching_a_run_that_fails(anywhere: Command, shop: Shop) -> None:
    run_id = shop.order(7, card="slow", wait=False)
    with shop.working():
        watched = anywhere("run", "watch", run_id, "-o", "ndjson")
    assert watched.code == 7
    events = [json.loads(line) for line in watched.out.splitlines()]
    assert [each["attempt"] for each in events if each["what"] == "retry"] == [1, 2]
    assert f"See why with `redrive run view {run_id}`." in watched.err


def test_watching_no_longer_than_asked(redrive: Command, shop: Shop) -> None:
    run_id = shop.order(7, wait=False)
    watched = redrive("run", "watch", run_id, "--timeout", "0s")
    assert watched.code == 9
    assert watched.out.endswith("queued\n")
    assert "is still in progress" in watched.err


def test_a_waiting_command_reports_a_missing_worker(
    redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.cli.progress.MISSING_WORKER_SECONDS", 0.0)
    watched = redrive("run", "watch", shop.order(7, wait=False), "--timeout", "1s")
    assert watched.code == 9
    assert watched.err.count("No worker serves queue 'default'") == 1


def test_cancelling(anywhere: Command, shop: Shop) -> None:
    first, second, third = (shop.order(number, wait=False) for number in (1, 2, 3))
    assert anywhere("run", "cancel", first).code == 2  # no terminal for the question
    would = anywhere("run", "cancel", first, "--dry-run")
    assert (would.code, would.out) == (0, "")
    assert would.err.startswith(f"Would cancel run {first} of checkout (queued) (")
    assert anywhere("run", "cancel", first, "--yes", "--reason", "a test").code == 0
    for how in ("--yes", "--dry-run"):
        again = anywhere("run", "cancel", first, how)
        assert (again.code, f"run {first} is cancelled; it can only be" in again.err) == (6, True)
    several = anywhere("run", "cancel", second, first, third, "--yes")
    assert several.code == 7
    assert several.err.count("Cancelled run ") == 2
    assert {row["state"] for row in rows(anywhere, "run", "list")} == {"CANCELLED"}


def test_retrying(anywhere: Command, shop: Shop) -> None:
    """P8."""
    run_id = shop.order(7, card="slow")
    assert anywhere("run", "retry", run_id, "--dry-run").code == 0
    shop.mended = True
    assert shop.work() == 0
    retried = anywhere("run", "retry", run_id, "--yes")
    assert (retried.code, retried.err) == (0, f"Queued run {run_id} again.\n")
    shop.work()
    assert rows(anywhere, "run", "list")[0]["state"] == "SUCCESS"
    assert anywhere("run", "retry", run_id, "--yes").code == 6


@pytest.mark.parametrize("verb", ["view", "watch", "cancel", "retry"])
def test_a_missing_run(anywhere: Command, verb: str) -> None:
    yes = ["--yes"] if verb in ("cancel", "retry") else []
    ended = anywhere("run", verb, "nothing/../like that", *yes)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("Error: ")


def test_of_another_organization(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    """I8."""
    run_id = shop.order(1)
    assert redrive("org", "create", "acme").code == 0
    assert redrive("run", "view", run_id, "--org", "acme").code == 3
    assert redrive("run", "list", "--org", "acme", "-o", "json").out == "[]\n"


def rows(command: Command, *arguments: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(command(*arguments, "-o", "json").out)
    return found


def test_the_beginning_of_an_id(anywhere: Command, shop: Shop) -> None:
    first = shop.order(1, card="declined")
    second = shop.order(2, card="declined")
    shared = next(at for at, digit in enumerate(first) if digit != second[at])
    assert json.loads(anywhere("run", "view", first[: shared + 1], "-o", "json").out)["id"] == first
    ambiguous = anywhere("run", "view", first[:6])
    assert (ambiguous.code, ambiguous.out) == (2, "")
    assert f"2 runs start with '{first[:6]}'; type more digits: {second} (checkout, " in ambiguous.err
    assert first in ambiguous.err
    dry = anywhere("run", "retry", first[: shared + 1], "--dry-run")
    assert (dry.code, f"Would retry run {first} of checkout" in dry.err) == (0, True)


def test_a_run_shows_its_owner_and_that_it_was_queued_again_p8(redrive: Command, shop: Shop) -> None:
    run_id = shop.order(1, card="declined", owner="ana")
    viewed = redrive("run", "view", run_id, "-o", "table").out
    assert re.search(r"owner +ana\n", viewed)
    assert "queued again" not in viewed
    assert redrive("run", "retry", run_id, "--yes").code == 0
    assert re.search(r"queued again +\S", redrive("run", "view", run_id, "-o", "table").out)
