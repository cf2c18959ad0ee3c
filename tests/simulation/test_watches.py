"""Those who watch replays, dead letters and operations can tell right from wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest
from tests.guards.switch import switched_off
from tests.simulation.breaker_watch import BreakerWatch
from tests.simulation.letter_watch import LetterWatch, Told
from tests.simulation.loop import VirtualLoop
from tests.simulation.order_watch import OrderWatch
from tests.simulation.prediction import Predicted, fits, predicted
from tests.simulation.replay_watch import ReplayWatch
from tests.simulation.script import (
    Bulk,
    Chore,
    ChoreKind,
    Fault,
    FaultKind,
    Outcome,
    RunPlan,
    Script,
    StepPlan,
    TaskPlan,
    WorkerPlan,
)
from tests.simulation.simulate import play
from tests.simulation.stage import Stage
from tests.simulation.watcher import Blind

WORKER = WorkerPlan("w0", ("default",), 3, 4.0, 3.0, 1.0, 0.0)
RUNNING = ("o", "RUNNING", '{"stop_on_breaker": true}')


def script_with(task: TaskPlan, *steps: StepPlan, chores: tuple[Chore, ...] = (), sweeps: int = 0) -> Script:
    runs = tuple(RunPlan(number, task.name, (step,)) for number, step in enumerate(steps))
    return Script(7, (WORKER,), (task,), (), runs, (), chores=chores, sweeps=sweeps)


@pytest.fixture
def watcher() -> Blind:
    return Blind(Stage(script_with(TaskPlan("t")), VirtualLoop(Random(0))))


def found(watcher: Blind) -> list[str]:
    watcher._stage.loop.close()
    return [finding.invariant for finding in watcher.findings]


def letter(state: str, redrives: int = 0) -> tuple[object, ...]:
    return "a", "acme", "run", state, "default", redrives, 2


def replay(
    number: str, state: str, *, operation: str | None = None, automatic: int = 0, breaker: str | None = None
) -> tuple[object, ...]:
    return number, operation, "a", "run", state, automatic, breaker


def replays_of(
    watcher: Blind, awaited: Callable[[str], dict[str, str]] = lambda letter_id: {}
) -> ReplayWatch:
    watch = ReplayWatch(watcher, BreakerWatch(watcher), awaited)
    watch.operations_changed([("o", "PLANNED", RUNNING[2])], {Told("operation.planned", "o")})
    watch.operations_changed([RUNNING], {Told("operation.started", "o")})
    return watch


# Order keys


class Ordered(NamedTuple):
    id: str
    place: str = "ready"
    held_by: str | None = None
    org: str = "acme"
    order_key: str | None = "a"


def ordered(watcher: Blind, *rows: Ordered) -> list[str]:
    """What is found when rows are committed, one after the other."""
    runs: dict[str, Ordered] = {}
    letters = LetterWatch(watcher)
    letters.changed([letter("OPEN")], {Told("dead_letter.moved", "a")})  # of the run "run"
    watch = OrderWatch(watcher, runs, letters)
    for row in rows:
        before, runs[row.id] = runs.get(row.id), row
        watch.changed(before, row)
        watch.look()
    return found(watcher)


@pytest.mark.parametrize(
    ("rows", "invariants"),
    [
        (
            [
                Ordered("1"),
                Ordered("2"),
                Ordered("1", "leased"),
                Ordered("1", "ended"),
                Ordered("2", "leased"),
            ],
            [],
        ),
        ([Ordered("1"), Ordered("2"), Ordered("2", "leased")], ["I4"]),
        ([Ordered("1"), Ordered("2", org="b"), Ordered("2", "leased", org="b")], []),
        ([Ordered("1"), Ordered("2"), Ordered("1", "leased"), Ordered("2", "leased")], ["I4"]),
        ([Ordered("run"), Ordered("2"), Ordered("run", "ended"), Ordered("2", "leased")], ["I4"]),
        (
            [
                Ordered("run", order_key="a!"),
                Ordered("2", order_key="a!"),
                Ordered("run", "ended", order_key="a!"),
                Ordered("2", "leased", order_key="a!"),
            ],
            [],
        ),
    ],
)
def test_a_run_that_overtakes_another_is_found(
    watcher: Blind, rows: list[Ordered], invariants: list[str]
) -> None:
    assert ordered(watcher, *rows) == invariants


# Dead letters


def test_a_letter_that_is_replayed_and_resolved_is_no_finding(watcher: Blind) -> None:
    watch = LetterWatch(watcher)
    watch.changed([letter("OPEN")], {Told("dead_letter.moved", "a")})
    watch.changed([letter("REPLAYING")], {Told("replay.requested", "a")})
    watch.changed([letter("RESOLVED")], {Told("replay.succeeded", "a"), Told("dead_letter.resolved", "a")})
    assert watcher.figures["acme", "default", "manually_retried"] == 1
    assert watcher.figures["acme", "default", "retry_success"] == 1
    assert not found(watcher)


@pytest.mark.parametrize(
    ("states", "told", "invariants"),
    [
        (["OPEN"], set(), ["I14"]),
        (["OPEN", "REPLAYING"], {Told("replay.requested", "b")}, ["I14"]),
        (["OPEN", "REPLAYING", "ARCHIVED"], {Told("dead_letter.archived", "a")}, ["I10", "I14"]),
        (["EXHAUSTED"], {Told("dead_letter.moved", "a")}, ["I10"]),
        (["OPEN", "RESOLVED"], {Told("replay.succeeded", "a")}, ["I14"]),
    ],
)
def test_a_letter_that_changes_against_the_rules_is_found(
    watcher: Blind, states: list[str], told: set[Told], invariants: list[str]
) -> None:
    watch = LetterWatch(watcher)
    sound = {Told("dead_letter.moved", "a"), Told("replay.requested", "a")}
    for state in states[:-1]:
        watch.changed([letter(state)], sound)
    watch.changed([letter(states[-1])], told)
    assert found(watcher) == invariants


def test_too_many_redrives_are_found(watcher: Blind) -> None:
    LetterWatch(watcher).changed([letter("OPEN", redrives=3)], {Told("dead_letter.moved", "a")})
    assert found(watcher) == ["I3"]


def test_a_group_that_changes_without_an_entry_is_found(watcher: Blind) -> None:
    watch = LetterWatch(watcher)
    watch.groups_changed([("acme", "f", "OPEN")], set())
    watch.groups_changed([("acme", "f", "RESOLVED")], {Told("group.resolved", "f")})
    watch.groups_changed([("acme", "f", "IGNORED")], set())
    assert found(watcher) == ["I10", "I14"]


@pytest.mark.parametrize(("changed_at", "invariants"), [(4.9, ["I10"]), (5.0, [])])
def test_a_group_that_is_ignored_until_a_time_is_open_from_then_on(
    watcher: Blind, changed_at: float, invariants: list[str]
) -> None:
    watch = LetterWatch(watcher)
    watch.groups_changed([("acme", "f", "IGNORED", 5.0, 1.0)], set())
    told = {Told("group.acknowledged", "f")}
    watch.groups_changed([("acme", "f", "ACKNOWLEDGED", None, changed_at)], told)
    assert found(watcher) == invariants


# Replays and operations


def test_two_replays_of_a_run_one_after_the_other_are_no_finding(watcher: Blind) -> None:
    watch = replays_of(watcher)
    watch.changed([replay("1", "RUNNING")], 0.0)
    watch.changed([replay("1", "FAILED")], 0.0)
    watch.changed([replay("2", "PLANNED", operation="o")], 0.0)
    watch.changed([replay("2", "RUNNING", operation="o")], 0.0)
    assert not found(watcher)


def test_two_replays_of_a_run_at_once_are_found(watcher: Blind) -> None:
    watch = replays_of(watcher)
    watch.changed([replay("1", "RUNNING")], 0.0)
    watch.changed([replay("2", "RUNNING")], 0.0)
    assert found(watcher) == ["I4"]


def test_a_replay_that_continues_after_its_end_is_found(watcher: Blind) -> None:
    watch = replays_of(watcher)
    watch.changed([replay("1", "RUNNING")], 0.0)
    watch.changed([replay("1", "FAILED")], 0.0)
    watch.changed([replay("1", "RUNNING")], 0.0)
    assert found(watcher) == ["I10"]


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED", "CANCELLED"])
def test_an_item_that_is_started_while_its_operation_rests_is_found(watcher: Blind, state: str) -> None:
    watch = replays_of(watcher)
    watch.changed([replay("1", "PLANNED", operation="o")], 0.0)
    watch.operations_changed([("o", state, RUNNING[2])], {Told(f"operation.{state.lower()}", "o")})
    watch.changed([replay("1", "RUNNING", operation="o")], 0.0)
    assert found(watcher) == ["operation"]


@pytest.mark.parametrize("options", [{"automatic": 1}, {"operation": "o"}])
def test_what_is_started_before_what_it_waits_for_is_found(watcher: Blind, options: dict[str, int]) -> None:
    states = {"b": "RESOLVED"}
    watch = replays_of(watcher, lambda letter_id: states)
    watch.changed([replay("1", "RUNNING", **options)], 0.0)  # type: ignore[arg-type]
    assert not watcher.findings
    watch.changed([replay("1", "FAILED", **options)], 0.0)  # type: ignore[arg-type]
    states["b"] = "REPLAYING"
    watch.changed([replay("2", "RUNNING", **options)], 0.0)  # type: ignore[arg-type]
    assert found(watcher) == ["M12"]


def test_an_operation_that_changes_against_the_rules_is_found(watcher: Blind) -> None:
    watch = replays_of(watcher)
    watch.operations_changed([("o", "DONE", RUNNING[2])], set())
    watch.operations_changed([RUNNING], {Told("operation.resumed", "o")})
    assert found(watcher) == ["I14", "I10"]


# Predictions


LASTING = StepPlan((Outcome.FINAL,), lasting=9)
TWICE = TaskPlan("t", redrive="immediate", max_redrives=2)


@pytest.mark.parametrize(
    ("task", "step", "sweeps", "expected"),
    [
        (TWICE, LASTING, 0, Predicted("DLQ_PENDING", 0, 1, 2)),
        (TWICE, LASTING, 2, Predicted("DLQ_PENDING", 0, 1, 4)),
        (TWICE, StepPlan((Outcome.FINAL,), lasting=1), 0, Predicted("SUCCESS", 0, 0, 2)),
        (TaskPlan("t"), StepPlan((Outcome.FINAL,)), 1, Predicted("SUCCESS", 0, 0, 1)),
        (TaskPlan("t"), StepPlan((Outcome.FINAL,)), 0, Predicted("DLQ_PENDING", 0, 1, 0)),
    ],
)
def test_redrives_and_sweeps_end_as_predicted(
    task: TaskPlan, step: StepPlan, sweeps: int, expected: Predicted
) -> None:
    script = script_with(task, step, sweeps=sweeps)
    history = play(script)
    [ending] = history.endings
    assert predicted(script, script.runs[0]) == expected
    assert (ending.state, ending.step_index, ending.failures, ending.replays) == expected
    assert not history.findings


def test_what_a_replayed_run_cannot_have_ended_as_is_told() -> None:
    script = script_with(TWICE, LASTING)
    assert fits(script, script.runs[0], Predicted("DLQ_PENDING", 0, 1, 5))
    assert not fits(script, script.runs[0], Predicted("SUCCESS", 0, 0, 5))
    assert not fits(script, script.runs[0], Predicted("DLQ_PENDING", 0, 2, 5))


# The person at the desk


def test_a_bulk_replay_is_planned_paused_resumed_and_done() -> None:
    steps = [StepPlan((Outcome.FINAL,))] * 4
    plan = Chore(6.0, ChoreKind.PLAN, bulk=Bulk(canary=1, rate=0.5))
    steering = (Chore(8.0, ChoreKind.PAUSE), Chore(12.0, ChoreKind.RESUME))
    history = play(script_with(TaskPlan("t"), *steps, chores=(plan, *steering)))
    assert not history.findings
    assert {ending.state for ending in history.endings} == {"SUCCESS"}
    assert history.bitten["operation paused"] == history.bitten["operation done"] == 1
    assert history.bitten["item succeeded"] == 4


def test_a_replay_that_makes_no_sense_is_refused() -> None:
    again = (Chore(6.0, ChoreKind.REPLAY), Chore(9.0, ChoreKind.REPLAY, rash=True))
    history = play(script_with(TaskPlan("t"), StepPlan((Outcome.FINAL,)), chores=again))
    assert not history.findings
    assert history.bitten["replay succeeded"] == history.bitten["refused: replay"] == 1


def test_an_operation_that_is_paused_while_a_driver_looks_at_it_starts_nothing_more() -> None:
    steps = [StepPlan((Outcome.FINAL,))] * 4
    plan = Chore(6.0, ChoreKind.PLAN)
    steering = (Chore(8.5, ChoreKind.PAUSE), Chore(14.0, ChoreKind.RESUME))
    script = script_with(TaskPlan("t"), *steps, chores=(plan, *steering))
    script = replace(script, faults=(Fault(5.0, FaultKind.SLOW, "w0", 4.0, "tally"),))
    history = play(script)
    assert not history.findings
    assert history.bitten["operation paused"] == history.bitten["slow statement"] == 1
    with switched_off("lock_running.state"):
        assert "operation" in play(script).invariants
