"""`redrive replay`: a plan first, started if it still holds, then followed and steered (G12)."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.served import Served
from tests.cli.shop import Shop
from tests.cli.terminal import talk

from redrive.app import Redrive


def planned(redrive: Command, *arguments: str) -> dict[str, Any]:
    ended = redrive("replay", "plan", *(arguments or ("--query", "is:open")), "-o", "json")
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def view(redrive: Command, operation: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(redrive("replay", "view", operation["id"], "-o", "json").out)
    return found


def state(redrive: Command, operation: dict[str, Any]) -> str:
    return str(view(redrive, operation)["operation"]["state"])


def resolve(letter: str) -> None:
    async def resolved() -> None:
        async with Redrive(log=False) as app:
            await app.failures().resolve([letter])

    asyncio.run(resolved())


def force_open() -> None:
    async def forced() -> None:
        async with Redrive(log=False) as app:
            await app.breakers().force("gateway", "OPEN", reason="it is down")

    asyncio.run(forced())


def test_from_the_plan_to_the_report(anywhere: Command, shop: Shop) -> None:
    for number in range(3):
        shop.dead_letter(number)
    operation = planned(anywhere, "--query", "is:open", "--canary", "1", "--reason", "the bank is back")
    assert (operation["state"], operation["plan"]["will_run"]) == ("PLANNED", 3)
    assert operation["plan"]["steps"] == {"charge": 3, "ship": 3}
    assert operation["reason"] == "the bank is back"

    started = anywhere("replay", "start", operation["id"], "--yes", "--expect", "3")
    assert (started.code, started.out) == (0, "")
    assert f"redrive replay watch {operation['id']}" in started.err
    shop.mended = True
    with shop.working():
        watched = anywhere("replay", "watch", operation["id"])
    assert watched.code == 0
    assert "succeeded\t3\n" in watched.out

    report = view(anywhere, operation)
    assert report["operation"]["state"] == "DONE"
    assert report["items"]["SUCCEEDED"] == 3
    [row] = json.loads(anywhere("replay", "list", "-o", "json").out)
    assert (row["id"], row["released"]) == (operation["id"], 3)


def test_failures_are_grouped_and_end_with_7(anywhere: Command, shop: Shop) -> None:
    for number in range(2):
        shop.dead_letter(number)
    operation = planned(anywhere, "--query", "is:open", "--stop-same-failures", "0")
    with shop.working():
        ended = anywhere("replay", "start", operation["id"], "--yes", "--wait", "-o", "table")
    assert ended.code == 7
    assert "2 of 2 finished. Items: 2 failed." in ended.out
    assert re.search(r"  2  the card of order [01] was declined\n", ended.out)
    assert f"redrive replay items {operation['id']} --state FAILED" in ended.out
    for verb in ("watch", "view"):
        assert anywhere("replay", verb, operation["id"]).code == 7
    failed = anywhere("replay", "items", operation["id"], "--state", "failed", "--limit", "1", "-o", "json")
    assert [each["state"] for each in json.loads(failed.out)] == ["FAILED"]
    assert failed.err == "Showing 1 of 2. Use --limit N or --all for more.\n"
    table = anywhere("replay", "items", operation["id"], "-o", "table").out
    assert table.splitlines()[0].split() == ["DEAD", "LETTER", "STATUS", "AGE", "FAILED", "AS", "NOTE"]
    assert table.count(" (same)") == 2
    assert anywhere("replay", "items", operation["id"], "--state", "SUCCEEDED", "-o", "json").out == "[]\n"


def test_a_replay_that_stopped_automatically(redrive: Command, shop: Shop) -> None:
    for number in range(4):
        shop.dead_letter(number)
    operation = planned(redrive, "--query", "is:open", "--canary", "1", "--stop-same-failures", "1")
    with shop.working():
        ended = redrive("replay", "start", operation["id"], "--yes", "--wait", "-o", "table")
    assert ended.code == 7
    assert "Stopped: 1 item failed with the same error as before." in ended.out
    assert "3 were not started and remain dead letters." in ended.out

    resumed = redrive("replay", "resume", operation["id"], "--reason", "the bank is back")
    watch = f"redrive replay watch {operation['id']}"
    assert resumed == (0, "", f"Resumed replay {operation['id']}. Follow it with `{watch}`.\n")
    shop.mended = True
    with shop.working():
        assert redrive("replay", "watch", operation["id"]).code == 7  # one has failed permanently
    assert view(redrive, operation)["items"]["SUCCEEDED"] == 3


def test_pausing_and_cancelling(anywhere: Command, shop: Shop) -> None:
    shop.dead_letter()
    operation = planned(anywhere)
    assert anywhere("replay", "pause", operation["id"]).code == 6
    anywhere("replay", "start", operation["id"], "--yes")
    for verb, after in (("pause", "PAUSED"), ("resume", "RUNNING")):
        assert anywhere("replay", verb, operation["id"]).code == 0
        assert state(anywhere, operation) == after
    anywhere("replay", "pause", operation["id"])
    watched = anywhere("replay", "watch", operation["id"], "--timeout", "0s")
    assert (watched.code, "The replay is paused" in watched.err) == (9, True)

    unasked = anywhere("replay", "cancel", operation["id"])
    assert (unasked.code, "(1 item not started)" in unasked.err) == (2, True)
    assert anywhere("replay", "cancel", operation["id"], "--yes").code == 0
    assert state(anywhere, operation) == "CANCELLED"
    assert anywhere("replay", "watch", operation["id"]).code == 7


def test_changes_since_the_plan_are_listed_and_nothing_starts(anywhere: Command, shop: Shop) -> None:
    first, second = shop.dead_letter(1), shop.dead_letter(2)
    operation = planned(anywhere, first, second)
    resolve(first)
    ended = anywhere("replay", "start", operation["id"], "--yes")
    assert (ended.code, ended.out) == (6, "")
    assert "Error: 1 dead letter has changed since the plan; nothing was started:\n" in ended.err
    assert f"\n  {first}  " in ended.err
    assert second not in ended.err
    assert f"redrive replay start {operation['id']} --accept-drift" in ended.err
    assert state(anywhere, operation) == "PLANNED"

    assert anywhere("replay", "start", operation["id"], "--yes", "--accept-drift").code == 0
    shop.mended = True
    with shop.working():
        assert anywhere("replay", "watch", operation["id"]).code == 7  # one was rejected
    assert view(anywhere, operation)["items"]["SUCCEEDED"] == 1
    told = anywhere("replay", "view", operation["id"], "-o", "table")
    assert (told.code, f"redrive replay items {operation['id']} --state REFUSED" in told.out) == (7, True)


def test_the_number_that_is_left_after_the_drift(anywhere: Command, shop: Shop) -> None:
    """UI rule 3: the number shown is the number affected."""
    first, *others = [shop.dead_letter(number) for number in range(3)]
    operation = planned(anywhere, first, *others)
    dry = anywhere("replay", "start", operation["id"], "--dry-run")
    assert (dry.code, dry.err.startswith("Would replay 3 dead letters (")) == (0, True)
    resolve(first)
    dry = anywhere("replay", "start", operation["id"], "--dry-run")
    assert (dry.code, dry.out) == (6, "")
    assert "1 dead letter has changed since the plan; nothing would be started:\n" in dry.err
    assert (first in dry.err, others[0] in dry.err) == (True, False)

    drifting = ["replay", "start", operation["id"], "--accept-drift"]
    dry = anywhere(*drifting, "--dry-run")
    assert (dry.code, "Would replay 2 dead letters, without 1 that has changed (" in dry.err) == (0, True)
    for mode in ("--dry-run", "--yes"):
        refused = anywhere(*drifting, "--expect", "3", mode)
        assert (refused.code, "2 dead letters would be replayed, not 3 as expected" in refused.err) == (
            6,
            True,
        )
    assert state(anywhere, operation) == "PLANNED"
    assert anywhere(*drifting, "--expect", "2", "--yes").code == 0
    assert (
        view(anywhere, operation)["items"] | {"PLANNED": 2, "REFUSED": 1}
        == view(anywhere, operation)["items"]
    )


class Hesitation(str):
    """Types yes after resolving another dead letter."""

    __slots__ = ("letter",)
    letter: str

    def __format__(self, spec: str) -> str:
        resolve(self.letter)
        return "y"


def test_changes_during_the_confirmation_question(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    first, second, third = [shop.dead_letter(number) for number in range(3)]
    operation = planned(redrive, first, second, third)
    resolve(first)
    late = Hesitation("y")
    late.letter = second
    ended = talk(tmp_path, ["replay", "start", operation["id"], "--accept-drift"], ("[y/N]:", late))
    assert ended.code == 6
    assert "1 dead letter would be replayed, 2 were expected; nothing was changed" in " ".join(
        ended.shown.split()
    )
    assert state(redrive, operation) == "PLANNED"


def test_all_of_it_has_changed(redrive: Command, shop: Shop) -> None:
    letter = shop.dead_letter()
    operation = planned(redrive)
    resolve(letter)
    ended = redrive("replay", "start", operation["id"], "--accept-drift", "--yes")
    assert (ended.code, "all dead letters have changed" in ended.err) == (6, True)
    assert state(redrive, operation) == "PLANNED"


def test_the_expected_number_is_checked_although_nothing_has_changed(redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    operation = planned(redrive)
    drifting = ["replay", "start", operation["id"], "--accept-drift", "--yes", "--expect"]
    assert redrive(*drifting, "2").code == 6
    assert redrive(*drifting, "1").code == 0


def test_the_report_says_who_controlled_it_and_why(anywhere: Command, shop: Shop) -> None:
    shop.dead_letter()
    operation = planned(anywhere)
    anywhere("replay", "start", operation["id"], "-y")
    anywhere("replay", "pause", operation["id"], "--reason", "the bank asks us to wait")
    anywhere("replay", "resume", operation["id"], "--reason", "the bank is back")
    told = " ".join(anywhere("replay", "view", operation["id"], "-o", "table").out.split())
    for verb, why in (("paused", "the bank asks us to wait"), ("resumed", "the bank is back")):
        assert re.search(rf"{verb} [-0-9]+ [:0-9]+Z by .+?: {why}", told)


def test_items_of_another_replay(redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    first = planned(redrive)
    redrive("replay", "start", first["id"], "--yes")
    told = redrive("replay", "plan", "--query", "is:open", "-o", "table").out
    assert f"resume or cancel that one: redrive replay view {first['id']}" in " ".join(told.split())


def test_a_long_list_says_that_there_is_more(redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    for _ in range(2):
        planned(redrive)
    listed = redrive("replay", "list", "--limit", "1", "-o", "json")
    assert (len(json.loads(listed.out)), listed.err) == (
        1,
        "Showing the newest 1. Use --limit N or --all for more.\n",
    )
    for every in (["--limit", "2"], ["--all"], ["--limit", "1", "--all"]):
        whole = redrive("replay", "list", *every, "-o", "json")
        assert (len(json.loads(whole.out)), whole.err) == (2, "")


def test_another_number_than_expected(redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    operation = planned(redrive)
    ended = redrive("replay", "start", operation["id"], "--yes", "--expect", "2")
    assert ended == (
        6,
        "",
        "Error: 1 dead letter would be replayed, not 2 as expected; nothing was started\n",
    )
    assert redrive("replay", "plan", "--query", "is:open", "--expect", "2").code == 6
    assert len(json.loads(redrive("replay", "list", "-o", "json").out)) == 1


def test_by_status_with_a_limit(anywhere: Command, shop: Shop) -> None:
    """G12: the oldest letters."""
    letters = [shop.dead_letter(number) for number in range(3)]
    ended = anywhere("replay", "plan", "--query", "is:open", "--max", "2", "-o", "json")
    assert ended.err == "Selected the oldest 2 of 3.\n"
    operation = json.loads(ended.out)
    assert sorted(operation["selection"]["ids"]) == sorted(letters[:2])

    by_status = anywhere("replay", "plan", "--status", "failed", "--limit", "2", "-o", "json")
    assert json.loads(by_status.out)["selection"]["ids"] == operation["selection"]["ids"]
    both = anywhere("replay", "plan", "--status", "failed", "--query", "is:open")
    assert (both.code, "not both" in both.err) == (2, True)

    group = json.loads(anywhere("status", "-o", "json").out)["groups"][0]["fingerprint"]
    assert planned(anywhere, "--group", group.removeprefix("v1:")[:12])["plan"]["selected"] == 3
    assert planned(anywhere, "--group", group, "--max", "1")["selection"]["ids"] == letters[:1]
    assert planned(anywhere, *letters, "--max", "1")["selection"]["ids"] == letters[:1]
    assert planned(anywhere, "--query", "is:archived", "--max", "5")["plan"]["selected"] == 0


def test_options_reach_the_plan(redrive: Command, shop: Shop) -> None:
    letter = shop.dead_letter()
    operation = planned(
        redrive, letter, "--mode", "step-only", "--rate", "2.5", "--stop-failure-rate", "30%",
        "--stop-minimum", "7", "--stop-same-failures", "0", "--no-stop-on-breaker", "--canary", "4",
        "--policy", "max_retries=4", "--policy", "base_delay_ms=10",
    )  # fmt: skip
    assert operation["mode"] == "STEP_ONLY"
    assert operation["options"] == {
        "canary": 4,
        "rate": 2.5,
        "failure_rate": 0.3,
        "minimum": 7,
        "same_failures": None,
        "stop_on_breaker": False,
    }
    assert operation["override_retry_policy"] == {"max_retries": 4, "base_delay_ms": 10}
    whole = planned(redrive, letter, "--policy", '{"max_retries": 1}')
    assert whole["override_retry_policy"] == {"max_retries": 1}


def test_a_plan_says_what_will_happen(redrive: Command, shop: Shop) -> None:
    for number in range(12):
        shop.dead_letter(number)
    shop.dead_letter(50, card="slow", work="refund")
    resolved = shop.dead_letter(60)
    resolve(resolved)
    force_open()
    ended = redrive("replay", "plan", "--query", "is:any", "--rate", "1", "-o", "table")
    assert (ended.code, ended.err) == (0, "")
    for line in (
        "13 of 14 dead letters will be replayed",
        "  12  executions of charge\n",
        "  12  executions of ship\n",
        "   1  execution of refund\n",
        "   1  may repeat a side effect that is not safe to repeat\n",
        "  12  wait for the breaker 'gateway' to close\n",
        "   1  will not run: ",
        "  Starts with a canary of 10; the rest follows if it passes.\n",
        "  At most 1 per second, so 3 s or longer.\n",
        "If a dead letter changes before the start, nothing starts",
        "  redrive replay start ",
    ):
        assert line in ended.out
    left_out = redrive("replay", "plan", "--query", "is:any", "--exclude-unsafe", "-o", "table").out
    assert "   1  skipped: may repeat a side effect that is not safe to repeat\n" in left_out


def test_nothing_to_replay(redrive: Command, shop: Shop) -> None:
    shop.order()
    ended = redrive("replay", "plan", "--query", "is:open", "-o", "json")
    assert (ended.code, ended.err.startswith("No dead letters are selected; there is nothing")) == (0, True)
    assert "Check the query with `redrive dlq list is:open`" in ended.err
    operation = json.loads(ended.out)
    assert redrive("replay", "view", operation["id"], "-o", "table").out.startswith(
        "No dead letters are selected"
    )
    ended = redrive("replay", "start", operation["id"], "--yes")
    assert (ended.code, "none of its dead letters can be replayed" in ended.err) == (6, True)


def test_who_may(shop: Shop, served: Served, redrive: Command) -> None:
    """A viewer plans, and an admin starts (W12)."""
    shop.dead_letter()
    served.enter("VIEWER")
    operation = planned(redrive)
    for verb in ("start", "cancel"):
        ended = redrive("replay", verb, operation["id"], "--yes")
        assert (ended.code, ended.out) == (5, "")
        assert ended.err.startswith("Error: ")
    served.enter("ADMIN")
    assert redrive("replay", "start", operation["id"], "--yes").code == 0


@pytest.mark.parametrize(("answer", "code"), [("n", 8), ("y", 0)])
def test_starting_asks_with_the_number(
    redrive: Command, shop: Shop, tmp_path: Path, answer: str, code: int
) -> None:
    shop.dead_letter(1, card="slow", work="refund")
    operation = planned(redrive)
    ended = talk(tmp_path, ["replay", "start", operation["id"]], ("[y/N]:", answer))
    assert (ended.code, ended.out) == (code, "")
    question = "Replay 1 dead letter, of which 1 may repeat a side effect that is not safe to repeat? ("
    assert question in ended.shown.replace("\r\n", "")
    assert state(redrive, operation) == ("RUNNING" if code == 0 else "PLANNED")


def test_without_an_answer_nothing_is_started(redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    operation = planned(redrive)
    ended = redrive("replay", "start", operation["id"])
    assert (ended.code, "Add --yes to replay 1 dead letter (" in ended.err) == (2, True)
    assert state(redrive, operation) == "PLANNED"


def test_a_bar_on_a_terminal(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    shop.dead_letter()
    operation = planned(redrive)
    redrive("replay", "start", operation["id"], "--yes")
    shop.mended = True
    with shop.working():
        ended = talk(tmp_path, ["replay", "watch", operation["id"], "-o", "json"])
    assert ended.code == 0
    assert json.loads(ended.out)["items"]["SUCCEEDED"] == 1
    assert "━" * 20 in ended.shown
    assert "1 of 1 finished" in ended.shown


def test_a_line_where_there_is_no_terminal(redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    operation = planned(redrive)
    redrive("replay", "start", operation["id"], "--yes")
    ended = redrive("replay", "watch", operation["id"], "--timeout", "0s")
    assert (ended.code, ended.out) == (9, "")
    assert ended.err.startswith("Replaying: 0 of 1 finished\nTimed out after ")


def test_a_replay_that_was_not_started_is_not_watched(redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    ended = redrive("replay", "watch", planned(redrive)["id"])
    assert (ended.code, ended.out) == (6, "")
    assert "the replay has not been started" in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["plan"], 2, "Pass dead-letter ids, --query or --group"),
        (["plan", "--query", "is:open", "--group", "abc"], 2, "Pass dead-letter ids, --query or --group"),
        (["plan", "is:open"], 2, "--query 'is:open'"),
        (["plan", "nothing"], 3, "found no dead letter 'nothing'"),
        (["plan", "--query", "iz:open"], 2, "Error: "),
        (["plan", "--group", "abcdef"], 3, "Error: "),
        (["plan", "--query", "is:open", "--mode", "half"], 2, "use from-step or step-only"),
        (
            ["plan", "--query", "is:open", "--stop-failure-rate", "200%"],
            2,
            "is not a percentage or a fraction",
        ),
        (["plan", "--query", "is:open", "--policy", "fast"], 2, "write it as NAME=VALUE"),
        (["plan", "--query", "is:open", "--policy", "max_retries=many"], 2, "neither a number nor JSON"),
        (["plan", "--query", "is:open", "--policy", "speed=1"], 2, "it takes max_retries"),
        (["plan", "--query", "is:open", "--max", "0"], 2, "Invalid value for '--max'"),
        (["start", "nothing", "--yes"], 3, "Error: "),
        (["view", "nothing"], 3, "or at least its first 6; `redrive replay list` lists them"),
        (["items", "1a1e2b47"], 3, "no replay has an id that starts with 1a1e2b47"),
        (["show", "nothing"], 2, "Unknown command 'show'; did you mean 'view'?"),
        (["watch", "nothing"], 3, "Error: "),
        (["pause", "nothing"], 3, "Error: "),
        (["cancel", "nothing", "--yes"], 3, "Error: "),
    ],
)
def test_mistakes(redrive: Command, shop: Shop, arguments: list[str], code: int, message: str) -> None:
    shop.order()
    ended = redrive("replay", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert "Traceback" not in ended.err


def test_a_dry_run_changes_nothing(redrive: Command, shop: Shop) -> None:
    letter = shop.dead_letter()
    for selection in (["--query", "is:open"], [letter]):
        ended = redrive("replay", "plan", *selection, "--dry-run")
        assert ended == (0, "", "Would plan a replay of 1 dead letter.\n")
    assert redrive("replay", "list", "-o", "json").out == "[]\n"
    operation = planned(redrive)
    for verb in ("start", "cancel"):
        ended = redrive("replay", verb, operation["id"], "--dry-run")
        assert (ended.code, ended.err.startswith("Would ")) == (0, True)
    for verb in ("pause", "resume"):  # no output offers an action that would be rejected
        ended = redrive("replay", verb, operation["id"], "--dry-run")
        assert (ended.code, f"replay {operation['id']} is planned; it can only be" in ended.err) == (
            6,
            True,
        )
    assert state(redrive, operation) == "PLANNED"


def test_for_programs_and_narrow_terminals(
    redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.dead_letter()
    operation = planned(redrive, "--query", "is:open", "--reason", "a long story " * 20)
    [row] = csv.DictReader(io.StringIO(redrive("replay", "list", "-o", "csv").out))
    assert (row["id"], row["will_run"], row["planned_by"]) == (operation["id"], "1", "operator")
    [line] = redrive("replay", "list", "-o", "ndjson").out.splitlines()
    assert json.loads(line)["plan"]["will_run"] == 1
    assert f"id\t{operation['id']}\n" in redrive("replay", "view", operation["id"]).out
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        for arguments in (["list"], ["view", operation["id"]]):
            shown = redrive("replay", *arguments, "-o", "table").out
            assert max(map(len, shown.splitlines())) <= columns


def test_of_another_organization(redrive: Command, shop: Shop) -> None:
    """I8."""
    redrive("org", "create", "acme")
    shop.dead_letter()
    operation = planned(redrive)
    assert redrive("replay", "view", operation["id"], "--org", "acme").code == 3
    assert redrive("replay", "start", operation["id"], "--yes", "--org", "acme").code == 3
    assert redrive("replay", "list", "-o", "json", "--org", "acme").out == "[]\n"


def test_nothing_steers_the_terminal(redrive: Command, shop: Shop) -> None:
    """The terminal shows control characters of an error, and doesn't execute them."""
    shop.message = "red \x1b[31m\r\x1b[2J alert"
    shop.dead_letter(card="slow")
    operation = planned(redrive, "--query", "is:open", "--policy", "max_retries=0")
    with shop.working():
        ended = redrive("replay", "start", operation["id"], "--yes", "--wait", "-o", "table")
    assert ended.code == 7
    refused = redrive("queue", "pause", "default", "--reason", shop.message)
    assert refused.code == 2
    shown = [ended, refused, redrive("status", "-o", "table"), redrive("audit", "list", "-o", "table")]
    assert "alert" in shown[0].out
    assert "alert" in shown[2].out
    assert not any("\x1b" in each.out + each.err or "\r" in each.out + each.err for each in shown)
