"""`redrive demo`: its content, the guided path as typed commands, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path

from tests.demo.running import Demo, demo, is_alive, until

from redrive import Redrive
from redrive.settings import Settings


def failures(url: str) -> tuple[set[str], set[str], int]:
    """Return the fingerprints, the categories and the number of dead letters."""

    async def ask() -> tuple[set[str], set[str], int]:
        async with Redrive(url, settings=Settings(), log=False) as app:
            desk = app.failures()
            groups = [each.group for each in (await desk.groups.list("is:open")).lines]
            number = (await desk.count("is:open")).number
            return {each.fingerprint for each in groups}, {each.category for each in groups}, number

    return asyncio.run(ask())


def events_of(url: str) -> tuple[int, int]:
    """How many events of orders were stored, and how many of them were published again."""

    async def ask() -> tuple[int, int]:
        async with Redrive(url, settings=Settings(), log=False) as app:
            [orders] = await app.streams().list()
            return orders.stored, orders.duplicates

    return asyncio.run(ask())


def typed(running: Demo, beginning: str) -> str:
    """Wait for a command in the demo's output, and return it."""
    return running.wait_for(rf"\n +(redrive {beginning}.*)\n")


def test_the_guided_path_can_be_typed_from_the_first_failure_to_its_end(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        url = running.database_url
        expected = {"unknown", "timeout", "permission", "validation"}
        until(lambda: len(failures(url)[0]) >= 6 and failures(url)[1] >= expected)
        groups, _, letters = failures(url)
        assert letters >= 24
        until(lambda: events_of(url) >= (20, 2))
        shown = running.type(typed(running, "dlq groups"))
        assert shown.count("\n") >= len(groups)
        assert "shipping zone" in running.type(typed(running, "dlq view"))
        running.type(running.wait_for(r"\n +(echo .* >> .*zones\.toml)\n"))
        running.type(typed(running, "replay plan --group"))
        start, watch = typed(running, "replay start"), typed(running, "replay watch")
        running.type(start)
        running.type(watch)
        running.wait_for("✓ 5  Watch it resolve")
        ends_well(running, signal.SIGINT)
        assert "deleted with the demo; use --directory DIR to keep them" in running.output


def test_drills_on_postgresql_end_as_an_operator_expects_g15(tmp_path: Path) -> None:
    with demo(tmp_path, "--store", "postgresql") as running:
        assert running.database_url.startswith("postgresql://")
        assert running.link
        done = running.drill("--output", "json")
        outcomes = json.loads(done.stdout)
        assert (done.returncode, [each["drill"] for each in outcomes if not each["passed"]]) == (0, []), done
        assert {each["drill"] for each in outcomes} == {
            *("outage", "duplicates", "credential", "replay", "duplicate-events", "dead-event")
        }
        assert all(len(each["expectations"]) >= 5 for each in outcomes)
        assert set(running.state()["services"].values()) == {"up"}
        ends_well(running, signal.SIGTERM)
        assert "deleted with the demo's PostgreSQL database" in running.output
        assert running.drill().returncode == 3, "there is none any more"


def test_a_drill_that_does_not_end_well_says_so_and_breaks_nothing_else(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with demo(tmp_path, "--directory", str(kept)) as running:
        assert running.link
        running.control(service="carrier", state="refusing")
        done = running.drill("duplicates", "credential", "--output", "json")
        assert done.returncode == 7
        assert [each["passed"] for each in json.loads(done.stdout)] == [False, True]
        assert {name for name, state in running.state()["services"].items() if state != "up"} == {"carrier"}
        assert "did you mean 'outage'" in running.drill("outrage").stderr
        ends_well(running, signal.SIGINT)
        assert f"kept in {kept}" in running.output
        assert failures(running.database_url)[2] > 0


def test_killed_it_leaves_no_process_and_without_a_worker_it_ends_with_an_error(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        assert running.link
        children = running.children()
        running.process.kill()
        running.process.wait()
        until(lambda: not [each for each in children if is_alive(each)])
        assert len(running.folders()) == 1
    kept = tmp_path / "kept"
    with demo(tmp_path, "--directory", str(kept)) as following:
        assert following.link
        assert following.folders() == [], "those who come later tidy up"
        children = following.children()
        victim = next(each for each in children if b"worker" in Path(f"/proc/{each}/cmdline").read_bytes())
        os.kill(victim, signal.SIGKILL)
        code, error = following.ended()
        assert (code, re.sub(r"\d", "n", error)) == (
            1,
            "Error: the demo's worker-n exited unexpectedly with code -n\n",
        )
        assert not [each for each in children if is_alive(each)]
        assert (kept / "redrive.db").exists()
    with demo(tmp_path, "--directory", str(kept)) as again:
        assert again.ended()[0] == 2


def ends_well(running: Demo, number: signal.Signals) -> None:
    children = running.children()
    assert len(children) >= 3
    assert running.end(number) == (0, "")
    assert re.search(r"lost +0 ", running.output)
    assert re.search(r"broken promises +0 ", running.output)
    assert "0 of them twice" in running.output
    assert not [each for each in children if is_alive(each)]
    assert running.folders() == []
