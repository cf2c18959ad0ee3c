"""`redrive policy`: the effect of a policy, and of another one on recorded attempts."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from random import Random
from shutil import copy

import pytest
from tests.cli.conftest import Command, Ended
from tests.cli.terminal import talk

from redrive.app import Redrive
from redrive.parts import rewire
from redrive.policy import Backoff, Exponential
from redrive.policy.retry import RetryPolicy
from redrive.store.sqlite import SqliteDatabase
from redrive.testing import EPOCH, Harness

APPLICATION = """
from redrive import Redrive
from redrive.policy import GATEWAY, RUN

app = Redrive("sqlite://:memory:")

@app.task(retry=GATEWAY)
def charge(n): ...

@app.task(retry=RUN, max_attempts=3)
def mail(n): ...

app.workflow("checkout", [charge, mail])
"""


def history(path: Path) -> None:
    """A day ago: a run every seven seconds, through an outage of 66. The second step fails once."""
    app = Redrive("sqlite://:memory:", log=False)
    policy = RetryPolicy(name="even", max_attempts=2, backoff=Backoff(Exponential(10.0, 2.0)))

    @app.task(retry=policy, breaker="bank", timeout=9)
    def charge(number: int) -> int:
        if test.clock.time < down:
            raise TimeoutError("no answer")
        return number

    @app.task(retry=policy)
    def check(number: int) -> int:
        if number == 19:
            raise ValueError("no such customer")
        return number

    app.workflow("checkout", [charge, check])
    test = Harness(app)
    test.clock.time = (time.time() - 86_400.0) // 60.0 * 60.0 - EPOCH
    down = test.clock.time + 66.0
    rewire(app, SqliteDatabase(str(path), clock=test.clock), test.clock, Random(1))

    async def live() -> None:
        # Its breaker would hold later runs, which this history leaves out.
        await app.breakers().force("bank", "closed", reason="it is to be seen how retries go")
        for number in range(20):
            await app.start("checkout", number)
            await test.advance(7.0)
        await test.advance(3_600.0)
        await app.close()

    asyncio.run(live())


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "redrive.db"
    history(path)
    return path


@pytest.fixture
def shop(redrive: Command, lived: Path, tmp_path: Path) -> Command:
    copy(lived, tmp_path / "redrive.db")
    return redrive


def text_of(ended: Ended) -> str:
    assert ended.code == 0, ended.err
    return ended.out


# The list


def test_presets_are_listed(redrive: Command) -> None:
    lines = text_of(redrive("policy", "list")).splitlines()
    assert lines[0] == "step\t4\tmin(120, 2 · 2^(failures - 1)) s, jitter ±25%\t14.0"
    assert [line.split("\t")[0] for line in lines][-1] == "immediate"
    assert "never\t1\tno retries\t0.0" in lines


def test_policies_of_an_application_are_listed_by_step(redrive: Command, tmp_path: Path) -> None:
    (tmp_path / "shop_of_test.py").write_text(APPLICATION)
    rows = json.loads(text_of(redrive("policy", "list", "shop_of_test:app", "-o", "json")))
    assert [(row["used_by"], row["policy"], row["max_attempts"]) for row in rows] == [
        ("charge", "gateway", 3),
        ("mail", "run (changed)", 3),
        ("checkout.charge", "gateway", 3),
        ("checkout.mail", "run (changed)", 3),
    ]


def test_policies_of_stored_runs_are_listed(shop: Command) -> None:
    out = text_of(shop("policy", "list", "--stored", "-o", "csv"))
    assert out.splitlines()[1] == 'even,checkout.charge,2,"10 · 2^(failures - 1) s, no jitter",10.0'
    assert shop("policy", "list", "--stored", "--org", "acme").code == 3


# Explaining


def test_a_schedule_as_the_policy_prints_it_and_the_treatment_of_errors(redrive: Command) -> None:
    out = text_of(redrive("policy", "explain", "gateway", "-o", "table"))
    assert "      3      10 s    12.5 s      15 s       15 s      20 s      25 s" in out
    assert "provider_4xx    no       -        -" in out
    assert "unknown         yes      2 times  as above" in out
    assert "rate_limit: if the server says when to retry: exactly then, not counted, up to 100 times." in out
    assert out.endswith("When no retries are left, the step becomes a dead letter.\n")


def test_without_a_name_it_is_that_of_the_settings(redrive: Command) -> None:
    """P10."""
    out = text_of(redrive("policy", "explain", "--set", "retry_max_attempts=2"))
    first, second = out.splitlines()
    assert first == "configured\t-\t1\t0.0\t0.0\t0.0\t0.0\t0.0\t0.0\t-"
    assert second == "configured\t-\t2\t1.5\t2.0\t2.5\t1.5\t2.0\t2.5\t-"


def test_changed_and_cut_by_a_deadline(redrive: Command) -> None:
    arguments = ["--attempts", "5", "--base", "500ms", "--cap", "1m", "--jitter", "50%", "--deadline", "5s"]
    out = text_of(redrive("policy", "explain", "step", *arguments, "-o", "table"))
    assert "waits min(60, 0.5 · 2^(failures - 1)) s, jitter ±50%" in out
    assert "With a deadline of 5 s, 3 of 5 attempts can start; depending on jitter, up to 5." in out
    [found] = json.loads(text_of(redrive("policy", "explain", "step", *arguments, "-o", "json")))
    assert [each["within_deadline"] for each in found["attempts"]] == ["yes", "yes", "yes", "maybe", "maybe"]
    assert found["attempts"][4]["start"] == 7.5
    assert found["stored"]["backoff"]["jitter"] == {"kind": "proportional", "ratio": 0.5}


def test_policies_of_tasks_in_an_application_or_in_the_database(shop: Command, tmp_path: Path) -> None:
    (tmp_path / "shop_of_test.py").write_text(APPLICATION)
    [found] = json.loads(
        text_of(shop("policy", "explain", "shop_of_test:app", "--work", "checkout.mail", "-o", "json"))
    )
    assert (found["used_by"], found["policy"], found["max_attempts"]) == ("checkout.mail", "run (changed)", 3)
    found = json.loads(text_of(shop("policy", "explain", "--work", "checkout", "-o", "json")))
    assert [each["used_by"] for each in found] == ["checkout.charge", "checkout.check"]
    unknown = shop("policy", "explain", "--work", "chekout")
    assert (unknown.code, unknown.err) == (
        3,
        "Error: the database has no task, workflow or step 'chekout'; did you mean 'checkout'?\n",
    )


# Simulating


def test_how_many_dead_letters_a_longer_policy_would_have_avoided(shop: Command) -> None:
    found = json.loads(text_of(shop("policy", "simulate", "--attempts", "4", "-o", "json")))
    assert (found["runs"], found["failures"]) == (20, 11)
    letters = found["dead_letters"]
    assert (letters["recorded"], letters["changed"], letters["avoided"]) == (9, 1, 8)
    assert letters["avoided_by"] == {"itself": 0, "worked_again": 8, "others_recovered": 0}
    assert (letters["final"], letters["made"], letters["unknown"]) == (1, 0, 0)
    # Known to work from 66 s on: a third attempt, 30 s later, is enough for the last two of eight.
    assert (found["attempts"]["recorded"], found["attempts"]["changed"]) == (21, 35)
    assert [step["dependency"] for step in found["steps"]] == ["bank", "check"]
    assert found["steps"][0]["policy"]["changed"]["max_attempts"] == 4
    assert found["seconds_until_success"]["recorded"] == {"median": 10.0, "p95": 10.0}


def test_the_report_for_people(shop: Command) -> None:
    out = text_of(shop("policy", "simulate", "--attempts", "4", "-o", "table"))
    assert re.search(r"dead letters +9 +1  8 avoided", out)
    assert re.search(r"attempts +21 +35  \+14 \(\+66\.7%\)", out)
    assert "  8  avoided  all runs failed at the time, then others succeeded" in out
    assert "  1  final    retrying won't help with this error" in out
    assert "recorded  2 attempts, 10 · 2^(failures - 1) s, no jitter" in out
    assert "More attempts may keep a struggling dependency down for longer" in out
    assert "Evidence from other runs may not apply to work that fails" in out


def test_how_many_a_shorter_one_would_have_made(shop: Command) -> None:
    out = text_of(shop("policy", "simulate", "never", "-o", "csv"))
    assert out.splitlines()[1] == "checkout,charge,bank,10,8,10,0,2,0,20,10,17,9"


def test_selecting(shop: Command) -> None:
    for arguments, failures in (
        (["--step", "check"], 1),
        (["--task", "charge"], 10),
        (["--queue", "default", "--workflow", "checkout"], 11),
    ):
        out = text_of(shop("policy", "simulate", "--attempts", "3", *arguments, "-o", "json"))
        assert json.loads(out)["failures"] == failures


def test_an_empty_history_is_reported(shop: Command) -> None:
    recent = shop("policy", "simulate", "--attempts", "3", "--since", "1h")
    assert (recent.code, recent.out) == (0, "")
    assert recent.err.startswith("Nothing to simulate: no runs since 20")
    other = shop("policy", "simulate", "--attempts", "3", "--queue", "elsewhere")
    assert "Nothing to simulate: no matching failures in 20 runs since" in other.err
    assert (
        json.loads(text_of(shop("policy", "simulate", "run", "--since", "1h", "-o", "json")))["steps"] == []
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Pass a preset or an option such as --attempts 6."),
        (["--attempts", "5000"], 2, "--attempts must be a whole number from 1 to 1,000, got 5000"),
        (
            ["--attempts", "3", "--step", "chrge"],
            3,
            "no selected run has a step 'chrge'; did you mean 'charge'?",
        ),
        (["gatway"], 3, "there is no policy 'gatway'; did you mean 'gateway'?"),
        (["--base", "soon"], 2, "'soon' is not a duration"),
        (
            ["--increment", "5"],
            2,
            "--increment does not apply to the exponential curve; choose another curve",
        ),
        (["--attempts", "3", "--org", "acme"], 3, "found no organization 'acme'"),
    ],
)
def test_errors_are_explained(shop: Command, arguments: list[str], code: int, message: str) -> None:
    ended = shop("policy", "simulate", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err


def test_a_database_that_is_not_there_is_not_made(redrive: Command, tmp_path: Path) -> None:
    ended = redrive("policy", "simulate", "run")
    assert ended.code == 3
    assert "database redrive.db does not exist; a worker or `redrive migrate` creates it" in ended.err
    assert not list(tmp_path.iterdir())


def test_on_each_database(office: Command) -> None:
    """An installation that has executed no run yet."""
    assert office("migrate").code == 0
    ended = office("policy", "simulate", "run")
    assert (ended.code, ended.out) == (0, "")
    assert "Nothing to simulate: no runs since" in ended.err


def test_on_a_terminal_there_is_a_bar_and_color(shop: Command, tmp_path: Path) -> None:
    seen = talk(tmp_path, ["policy", "simulate", "--attempts", "4"], on_terminal=True)
    assert seen.code == 0
    assert "Reading attempts" in seen.shown
    assert "\x1b[32m8 avoided\x1b[0m" in seen.shown
