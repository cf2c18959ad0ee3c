"""`redrive dlq replay`: one dead letter, started, followed to its end, or rejected (W9, G12)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.by_hand import by_hand
from tests.cli.conftest import Command
from tests.cli.shop import Shop
from tests.cli.terminal import talk

from redrive.cli.dlq.replay import field_value


def state(command: Command) -> str:
    found: str = json.loads(command("run", "list", "-o", "json").out)[0]["state"]
    return found


def test_a_replay_that_succeeds(anywhere: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7, card="slow")
    shop.mended = True
    assert anywhere("dlq", "replay", letter).code == 2  # no terminal for the question
    would = anywhere("dlq", "replay", letter, "--dry-run")
    assert (would.code, would.out, state(anywhere)) == (0, "", "DLQ_PENDING")
    assert f"Would replay dead letter {letter} from step 'charge' to the end" in would.err
    with shop.working():
        ended = anywhere("dlq", "replay", letter, "--yes", "--reason", "the gateway is back")
    assert (ended.code, ended.out, state(anywhere)) == (0, "", "SUCCESS")
    assert "It stopped after 3 attempts" in ended.err
    assert "Succeeded after" in ended.err
    told = anywhere("dlq", "view", letter).out
    assert "replayed it: succeeded (the gateway is back)" in " ".join(told.split())
    for how in ("--yes", "--dry-run"):
        again = anywhere("dlq", "replay", letter, how)
        assert (
            again.code,
            "is resolved; it can only be replayed when it is exhausted or open" in again.err,
        ) == (6, True)


def test_a_replay_that_fails_again(anywhere: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7, card="slow")
    with shop.working():
        ended = anywhere("dlq", "replay", letter, "--yes", "-o", "json", "--policy", "max_retries=0")
    assert ended.code == 7
    replay = json.loads(ended.out)
    assert (replay["state"], replay["override_retry_policy"]["max_attempts"]) == ("FAILED", 1)
    assert f"See why with `redrive dlq view {letter}`." in ended.err


def test_the_failed_step_alone(redrive: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7)
    shop.mended = True
    with shop.working():
        assert redrive("dlq", "replay", letter, "--mode", "step-only", "--yes").code == 0
    assert state(redrive) != "SUCCESS"


def test_from_an_earlier_step_with_another_payload(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    letter = shop.dead_letter(7)
    (tmp_path / "order.json").write_text('{"number": 8, "card": "good"}')
    edited = ["dlq", "replay", letter, "--from-step", "reserve", "--payload", "order.json", "--yes"]
    with shop.working():
        refused = redrive(*edited)
        assert (refused.code, "reason" in refused.err) == (2, True)
        assert redrive(*edited, "--reason", "the number was wrong").code == 0
    [run] = json.loads(redrive("run", "list", "-o", "json").out)
    story = json.loads(redrive("run", "view", run["id"], "-o", "json").out)
    assert story["result"] == "order 8 has left shelf A-8"


def test_a_field_is_repaired_and_the_rest_kept(anywhere: Command, shop: Shop) -> None:
    """The password of the order appears nowhere, and reaches the task unchanged."""
    letter = shop.dead_letter(7)
    repair = ["dlq", "replay", letter, "--set-field", "card=good", "--set-field", "number=8"]
    would = anywhere(*repair, "--remove-field", "shelf", "--dry-run")
    assert (would.code, state(anywhere)) == (0, "DLQ_PENDING")
    for change in ('card: "declined" → "good"', "number: 7 → 8", 'shelf: "A-7" → removed'):
        assert change in would.err
    assert (anywhere(*repair, "--yes").code, "Add --reason" in anywhere(*repair, "--yes").err) == (2, True)
    with shop.working():
        ended = anywhere(*repair, "--yes", "--reason", "the card was replaced")
    assert (ended.code, state(anywhere)) == (0, "SUCCESS")
    asked = json.loads(anywhere("audit", "list", "--action", "replay.requested", "-o", "json").out)
    assert asked[0]["detail"]["changed_fields"] == ["number", "card"]
    [entry] = json.loads(anywhere("dlq", "view", letter, "-o", "json").out)["history"]["replays"]
    assert [change["path"] for change in entry["edit"]] == ["number", "card"]


def test_the_payload_as_shown_keeps_its_secrets(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    letter = shop.dead_letter(7)
    shown = json.loads(redrive("dlq", "view", letter, "-o", "json").out)["payload"]
    assert shown["password"] == "[redacted:password]"
    (tmp_path / "order.json").write_text(json.dumps({**shown, "card": "good"}))
    (tmp_path / "moved.json").write_text(json.dumps({**shown, "secret": shown["password"]}))
    reason = ("--reason", "the card was replaced", "--yes")
    moved = redrive("dlq", "replay", letter, "--payload", "moved.json", *reason)
    assert (moved.code, "at secret" in moved.err, "--set-field" in moved.err) == (2, True, True)
    with shop.working():
        assert redrive("dlq", "replay", letter, "--payload", "order.json", *reason).code == 0
    [replay] = json.loads(redrive("dlq", "view", letter, "-o", "json").out)["history"]["replays"]
    assert [change["path"] for change in replay["edit"]] == ["card"]


def test_a_reason_for_a_changed_payload_is_asked_on_a_terminal(
    redrive: Command, shop: Shop, tmp_path: Path
) -> None:
    letter = shop.dead_letter(7)
    repair = ["dlq", "replay", letter, "--set-field", "card=good", "--no-wait"]
    talked = talk(tmp_path, repair, ("Reason", "a new card"), ("[y/N]:", "y"))
    assert talked.code == 0, talked.shown
    [replay] = json.loads(redrive("dlq", "view", letter, "-o", "json").out)["history"]["replays"]
    assert replay["reason"] == "a new card"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("a=5", 5),
        ("a=5x", "5x"),
        ("a=", ""),
        ('a="5"', "5"),
        ("a=b=c", "b=c"),
        ('a={"b": [null]}', {"b": [None]}),
    ],
)
def test_a_value_is_json_where_it_can_be(written: str, value: object) -> None:
    assert field_value(written) == ("a", value)


def test_a_path_may_contain_an_equals_sign_in_quotes() -> None:
    assert field_value('b["c=d"][0]=e') == ('b["c=d"][0]', "e")


def test_steps_are_numbered_from_1(anywhere: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7)
    by_number = anywhere("dlq", "replay", letter, "--from-step", "1", "--dry-run")
    assert f"Would replay dead letter {letter} from step 1 to the end" in by_number.err
    zero = anywhere("dlq", "replay", letter, "--from-step", "0", "--dry-run")
    assert (zero.code, "steps are numbered from 1" in zero.err) == (2, True)
    with shop.working():
        anywhere("dlq", "replay", letter, "--from-step", "1", "--yes")
    [replay] = json.loads(anywhere("dlq", "view", letter, "-o", "json").out)["history"]["replays"]
    assert replay["from_step_index"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        ["--from-step", "nothing"],
        ["--from-step", "99"],
        ["--mode", "sideways"],
        ["--policy", "max_retries"],
        ["--policy", "retries=3"],
        ["--payload", "missing.json"],
        ["--set-field", "card", "--reason", "x"],
        ["--set-field", "=1", "--reason", "x"],
        ["--set-field", "cards.number=1", "--reason", "x"],
        ["--set-field", "card=1", "--set-field", "card=2", "--reason", "x"],
        ["--set-field", "card=1", "--remove-field", "card", "--reason", "x"],
        ["--remove-field", "cards", "--reason", "x"],
        ["--set-field", "secret=[redacted:password]", "--reason", "x"],
        ["--payload", "broken.json", "--reason", "x"],
    ],
)
def test_an_invalid_request_is_explained_and_starts_nothing(
    redrive: Command, shop: Shop, tmp_path: Path, wrong: list[str]
) -> None:
    letter = shop.dead_letter(7)
    (tmp_path / "broken.json").write_text("{")
    ended = redrive("dlq", "replay", letter, *wrong, "--yes")
    assert ended.code in (2, 3, 6)
    assert ended.err.count("Error: ") == 1
    assert json.loads(redrive("dlq", "view", letter, "-o", "json").out)["history"]["replays"] == []


def test_started_without_waiting(redrive: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7)
    begun = redrive("dlq", "replay", letter, "--yes", "--no-wait", "-o", "json")
    assert (begun.code, json.loads(begun.out)["state"]) == (0, "RUNNING")
    assert redrive("dlq", "replay", letter, "--yes").code == 6


def test_waiting_no_longer_than_asked(redrive: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7)
    ended = redrive("dlq", "replay", letter, "--yes", "--timeout", "0s")
    assert (ended.code, "is still in progress and continues" in ended.err) == (9, True)


@pytest.mark.parametrize("gone", ["never was", "has stopped", "serves another"])
def test_a_waiting_command_reports_a_missing_worker(
    redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """Even if a worker of this queue was alive a moment ago, and has stopped."""
    monkeypatch.setattr("redrive.cli.progress.MISSING_WORKER_SECONDS", 0.0)
    letter = shop.dead_letter(7)
    if gone != "never was":
        with shop.working():
            pass
    if gone == "serves another":
        by_hand("UPDATE redrive.workers SET state = 'running', queues = '[\"mail\"]'")
    ended = redrive("dlq", "replay", letter, "--yes", "--timeout", "1s")
    assert ended.code == 9
    told = "No worker serves queue 'default'. Start one with `redrive worker MODULE:ATTRIBUTE`."
    assert ended.err.count(told) == 1


def test_the_question_comes_after_the_verdict(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    letter = shop.dead_letter(7, card="slow", work="refund")
    talked = talk(tmp_path, ["dlq", "replay", letter], ("[y/N]:", "n"))
    assert talked.code == 8
    careful, question = (
        talked.shown.index(text) for text in ("Careful: the step may have", "Replay dead letter")
    )
    assert careful < question


@pytest.mark.parametrize("verb", ["replay", "watch"])
def test_interrupted_while_it_waits(redrive: Command, shop: Shop, tmp_path: Path, verb: str) -> None:
    """The replay has started and continues; Ctrl-C prints this, without a traceback."""
    letter = shop.dead_letter(7)
    [run] = json.loads(redrive("run", "list", "-o", "json").out)
    arguments = ["dlq", "replay", letter, "--yes"]
    if verb == "watch":
        redrive("run", "retry", run["id"], "--yes")
        arguments = ["run", "watch", run["id"]]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "redrive.cli", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    sign = "Started replay" if verb == "replay" else "queued"
    while sign not in process.stdout.readline():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
