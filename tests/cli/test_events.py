"""`redrive stream` and `redrive events`: lists, replays in three forms, and rebuilds (G12)."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.cli.conftest import Command

from redrive import Redrive
from redrive.cli.stream import _next
from redrive.events import Event
from redrive.parts import parts_of
from redrive.policy.query import parse
from redrive.policy.query_language import DEAD_LETTERS
from redrive.settings import Settings

T = TypeVar("T")
WORK = """
from redrive import Redrive
from redrive.cli.stream import _next
from redrive.events import Event
from pathlib import Path

app = Redrive(log=False)
scores = app.stream("scores", "redis://localhost:1")

@scores.projector("qscore", types=["score.*"], ordered_by="user", max_attempts=1)
async def qscore(event: Event) -> None:
    if Path("broken").exists():
        raise ValueError("the projection is broken")

@scores.projector("session")
async def session(event: Event) -> None: ...
"""


class Scores:
    """The application of the module, in this process, on the database of the command."""

    def __init__(self, redrive: Command, folder: Path) -> None:
        (folder / "work_of_test.py").write_text(WORK)
        self.app, self._broken = "work_of_test:app", folder / "broken"
        redrive("migrate")

    def record(self, number: int = 1, *, broken: bool = False) -> list[str]:
        if broken:
            self._broken.touch()

        async def recorded(app: Redrive) -> list[str]:
            events = [
                Event(
                    type="score.changed",
                    payload={"password": "hunter22"},
                    dedupe_key=f"score-{count}",
                    user=f"user-{count}",
                )
                for count in range(number)
            ]
            done = await app.events().record("scores", events)
            await parts_of(app).worker_in_test().work_off()
            return [event.id for event in done]

        try:
            return self._done(recorded)
        finally:
            self._broken.unlink(missing_ok=True)

    def work(self) -> int:
        return self._done(lambda app: parts_of(app).worker_in_test().work_off())

    def _done(self, what: Callable[[Redrive], Awaitable[T]]) -> T:
        async def do() -> T:
            known: dict[str, Any] = {"__name__": "work"}
            exec(WORK, known)  # another application of the same code
            async with known["app"] as app:
                return await what(app)

        assert Settings.load().database_url
        return asyncio.run(do())


@pytest.fixture
def scores(office: Command, tmp_path: Path) -> Scores:
    return Scores(office, tmp_path)


def found(redrive: Command, *arguments: str) -> Any:
    ended = redrive(*arguments, "-o", "json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_events_are_listed_and_viewed(office: Command, scores: Scores) -> None:
    [event] = scores.record()

    heading, line = office("events", "list", "-o", "table").out.splitlines()
    view = office("events", "view", event, "-o", "table").out

    assert heading.split()[:3] == ["ID", "AGE", "TYPE"]
    assert line.split()[0] == event
    assert "2 succeeded" in line
    assert [
        entry["id"] for entry in found(office, "events", "list", "is:succeeded", "-projector:session")
    ] == [event]
    assert found(office, "events", "list", "is:failed") == []
    assert "score.changed" in view
    assert "hunter22" not in view
    assert "qscore v1" in view
    assert f"redrive events replay --event-id {event}" in view
    assert office("events", "view", "unknown").code == 3
    assert office("events", "list", "category:timeout").code == 2


def test_an_event_is_replayed_by_id_with_selected_projectors_g12(office: Command, scores: Scores) -> None:
    [event] = scores.record()
    replay = ("events", "replay", "--event-id", event, "--projectors", "qscore")

    unknown = office(*replay, "--yes")
    assert (unknown.code, "does not declare the projector 'qscore'" in unknown.out) == (6, True)
    dry = office(*replay, "--app", scores.app, "--dry-run")
    assert (dry.code, "Would execute 1 projector for event" in dry.err) == (0, True)
    assert scores.work() == 0
    asked = office(*replay, "--app", scores.app)
    assert (asked.code, "Add --yes" in asked.err) == (2, True)
    [done] = found(office, *replay, "--app", scores.app, "--yes", "--reason", "a new formula")
    assert (done["projector"], done["action"], done["obstacle"]) == ("qscore", "start", None)
    again = office(*replay, "--app", scores.app, "--yes")
    assert (again.code, "its execution is not finished" in again.out) == (6, True)
    assert scores.work() == 1


def test_failed_projections_are_replayed_in_bulk_g12(office: Command, scores: Scores) -> None:
    scores.record(3, broken=True)

    dry = office("events", "replay", "--status", "failed", "--dry-run")
    assert "Would plan a replay of the failed projections of 3 events that match 'is:failed'" in dry.err
    asked = office("events", "replay", "--status", "failed", "--limit", "2")
    assert (asked.code, "Add --yes to replay 2 failed projections" in asked.err) == (2, True)
    started = office("events", "replay", "--status", "failed", "--limit", "2", "--yes")
    assert (started.code, "Follow it with `redrive replay watch" in started.err) == (0, True)
    scores.work()
    assert len(found(office, "events", "list", "is:failed")) == 1
    nothing = office("events", "replay", "--query", "is:failed projector:session", "--yes")
    assert (nothing.code, "there is nothing to start" in nothing.err) == (0, True)


def test_a_dead_letter_of_a_projector_is_replayed_g12(office: Command, scores: Scores) -> None:
    scores.record(broken=True)
    [letter] = found(office, "dlq", "list")

    dry = office("events", "replay", "--dlq", "--id", letter["id"], "--dry-run")
    assert dry.err.startswith(f"Would replay dead letter {letter['id']} of scores:qscore:v1 (open)")
    started = office("events", "replay", "--dlq", "--id", letter["id"][:31], "--yes")
    assert started.code == 0, started.err
    scores.work()
    assert found(office, "events", "list", "is:failed") == []


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--status", "failed", "--event-id", "a"),
        ("--status", "failed", "--query", "is:failed"),
        ("--dlq",),
        ("--id", "a"),
        ("--status", "failed", "--projectors", "qscore"),
    ],
)
def test_a_replay_has_one_form(redrive: Command, options: tuple[str, ...]) -> None:
    redrive("migrate")
    assert redrive("events", "replay", *options).code == 2


def test_a_projector_is_rebuilt_g12(office: Command, scores: Scores) -> None:
    scores.record(3)
    rebuild = ("events", "rebuild", "--projector", "qscore", "--app", scores.app)

    dry = office(*rebuild, "--dry-run")
    assert dry.err.startswith("Would rebuild qscore v1 from 3 events of stream 'scores'")
    started = found(office, *rebuild, "--yes", "--since", "7d", "--type", "score.changed")
    assert (started["total"], started["types"]) == (3, ["score.changed"])
    assert office(*rebuild, "--yes").code == 6
    view = ("events", "rebuilds", "view", started["id"])
    assert "0 of 3 events" in office(*view, "-o", "table").out
    assert office("events", "rebuilds", "pause", started["id"]).err == f"Paused rebuild {started['id']}.\n"
    assert scores.work() == 0
    assert "is paused" in office("events", "rebuilds", "pause", started["id"]).err
    assert office("events", "rebuilds", "resume", started["id"]).code == 0
    assert scores.work() == 3
    assert found(office, *view)["state"] == "DONE"
    assert "3 of 3" in office("events", "rebuilds", "list", "-o", "table").out
    assert office("events", "rebuilds", "cancel", started["id"], "--yes").code == 6
    assert office("events", "rebuilds", "view", "unknown").code == 3
    missing = office(*rebuild[:-2], "--yes")
    assert (missing.code, "use --app or a server" in missing.err) == (3, True)


def test_streams_are_listed_paused_and_resumed(office: Command, scores: Scores) -> None:
    scores.record()

    assert [(entry["name"], entry["state"]) for entry in found(office, "stream", "list")] == [
        ("scores", "active")
    ]
    assert "never: no consumer has run yet" in office("stream", "view", "scores", "-o", "table").out
    unread = office("stream", "pause", "scores", "--dry-run")
    assert unread.err == "Would pause stream 'scores'.\n"
    assert office("stream", "pause", "skores").code == 3
    heading, line = office("stream", "list", "-o", "table").out.splitlines()
    assert heading.split()[:4] == ["NAME", "STATE", "LAG", "PENDING"]
    assert line.split()[:2] == ["scores", "active"]


def test_the_suggested_command_lists_the_dead_letters_of_a_stream() -> None:
    commands = [command for command, _ in _next({"name": "grow", "paused": False, "dead": 1})]

    query = " ".join(shlex.split(commands[-1])[3:])
    assert query == 'task:"grow: store entry"'
    assert len(parse(query, DEAD_LETTERS).terms) == 1
