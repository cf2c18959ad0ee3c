"""The timeline of a run: it shows the state of the work at every moment, and nothing is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.engine.history import TimelineEvent
from redrive.engine.run_view import AttemptView, RunSummary, StepView
from redrive.engine.runs import Story
from redrive.model.decision import DecisionFacts
from redrive.model.fact import fact
from redrive.model.run import Place
from redrive.server.admin.run_phases import Phase, run_phases
from redrive.server.admin.timeline import MAX_SHARE, RunTimeline, timeline

START = 1_800_000_000.0
DAY = 86_400.0


def a_run(**changes: Any) -> RunSummary:
    values: dict[str, Any] = dict.fromkeys(RunSummary.__dataclass_fields__)
    values |= {"id": "01", "workflow": "order", "queue": "default", "priority": 0, "state": "RUNNING"}
    values |= {"place": Place.READY, "step_index": 0, "step": "greet", "step_state": "PENDING", "attempt": 0}
    values |= {"submitted_at": START, "failures": 0, "correlation_id": "01", "tags": (), "replays": 0}
    return RunSummary(**values | {"redrives": 0} | changes)


def an_attempt(number: int, since: float, seconds: float, **changes: Any) -> AttemptView:
    values: dict[str, Any] = dict.fromkeys(AttemptView._fields)
    values |= {"step_index": 0, "step": "greet", "number": number, "outcome": "failed", "replay": 0}
    values |= {
        "reason": "",
        "decision": DecisionFacts(""),
        "started_at": START + since,
        "ended_at": START + since + seconds,
    }
    return AttemptView(**values | changes)


def steps(*names: str) -> list[StepView]:
    empty: dict[str, Any] = dict.fromkeys(StepView._fields)
    return [
        StepView(**empty | {"step_index": at, "name": name, "task": name, "state": "PENDING"})
        for at, name in enumerate(names)
    ]


def a_story(attempts: Sequence[AttemptView] = (), events: Sequence[TimelineEvent] = ()) -> Story:
    return Story(steps("greet", "charge"), attempts, events)


def happened(since: float, what: str, holder: str = "") -> TimelineEvent:
    detail = fact(what, holder=holder) if holder else None
    return TimelineEvent(START + since, what, "greet", None, detail, 0)


def walked(run: RunSummary, story: Story, now: float = 100.0) -> list[tuple[str, int, float, float]]:
    found = run_phases(run, story, START + now)
    return [
        (each.kind, each.step_index, round(each.since - START, 3), round(each.until - START, 3))
        for each in found
    ]


def drawn(run: RunSummary, story: Story, now: float = 100.0) -> RunTimeline:
    return timeline(run, story, START + now, UTC)


def test_a_run_that_was_executed_at_once() -> None:
    run = a_run(state="SUCCESS", place=Place.ENDED, ended_at=START + 5, step_index=1)
    attempts = [
        an_attempt(1, 2, 1, outcome="succeeded"),
        an_attempt(1, 3, 2, outcome="succeeded", step_index=1, step="charge"),
    ]
    assert walked(run, a_story(attempts)) == [
        ("queued", 0, 0, 2),
        ("running", 0, 2, 3),
        ("running", 1, 3, 5),
    ]


def test_between_attempts_it_waits_until_it_is_due_and_is_queued_then() -> None:
    attempts = [an_attempt(1, 1, 1, delay=10.0), an_attempt(2, 15, 1, delay=20.0)]
    run = a_run(place=Place.WAITING, due_at=START + 36, step_state="RETRYING", attempt=2)
    assert walked(run, a_story(attempts), now=30) == [
        ("queued", 0, 0, 1),
        ("running", 0, 1, 2),
        ("waiting", 0, 2, 12),
        ("queued", 0, 12, 15),
        ("running", 0, 15, 16),
        ("waiting", 0, 16, 30),
    ]


def test_a_breaker_holds_it_and_lets_it_go() -> None:
    events = [happened(3, "held", "breaker:bank"), happened(9, "released", "breaker:bank")]
    run = a_run(state="SUCCESS", place=Place.ENDED, ended_at=START + 11)
    story = a_story([an_attempt(1, 10, 1, outcome="succeeded")], events)
    assert walked(run, story) == [
        ("queued", 0, 0, 3),
        ("held", 0, 3, 9),
        ("queued", 0, 9, 10),
        ("running", 0, 10, 11),
    ]
    [held] = [each for each in run_phases(run, story, START) if each.kind == "held"]
    assert held.detail == "by the breaker 'bank'"


def test_a_run_held_now_shows_its_breaker_with_a_time_or_its_limit_without() -> None:
    held = a_run(place=Place.HELD, held_by="breaker:bank")
    assert walked(held, a_story([], [happened(4, "held", "breaker:bank")]), now=9) == [
        ("queued", 0, 0, 4),
        ("held", 0, 4, 9),
    ]
    limited = a_run(place=Place.HELD, held_by="limit:bank")
    assert walked(limited, a_story(), now=9) == [("held", 0, 0, 9)]


def test_it_is_being_executed_now() -> None:
    run = a_run(place=Place.LEASED, attempt_started_at=START + 7, attempt=1, step_state="RUNNING")
    assert walked(run, a_story(), now=9) == [("queued", 0, 0, 7), ("running", 0, 7, 9)]
    [lane, other] = drawn(run, a_story(), now=9).lanes
    assert [(each.number, each.outcome) for each in lane.attempts] == [(1, "")]
    assert (other.segments, other.title) == ([], "charge: not started")


def test_a_replay_comes_after_the_time_that_it_lay_where_it_had_stopped() -> None:
    attempts = [
        an_attempt(1, 1, 1, outcome="succeeded"),
        an_attempt(1, 2, 1, step_index=1, step="charge"),
        an_attempt(1, 60, 1, outcome="succeeded", replay=1),
    ]
    run = a_run(state="RUNNING", place=Place.READY, step_index=1)
    assert walked(run, a_story(attempts, [happened(50, "replayed")]), now=70) == [
        ("queued", 0, 0, 1),
        ("running", 0, 1, 2),
        ("running", 1, 2, 3),
        ("stopped", 1, 3, 50),
        ("queued", 0, 50, 60),
        ("running", 0, 60, 61),
        ("queued", 1, 61, 70),
    ]


def test_a_stopped_run_ends_with_its_last_attempt() -> None:
    run = a_run(state="DLQ_PENDING", place=Place.ENDED, ended_at=START + 2.5)
    assert walked(run, a_story([an_attempt(1, 1, 1)])) == [("queued", 0, 0, 1), ("running", 0, 1, 2)]


def test_cancelled_before_anything_was_executed() -> None:
    run = a_run(state="CANCELLED", place=Place.ENDED, ended_at=START + 6)
    assert walked(run, a_story()) == [("queued", 0, 0, 6)]


def test_one_long_wait_between_two_attempts_needs_no_break() -> None:
    attempts = [an_attempt(1, 1, 1, delay=3 * DAY), an_attempt(2, 3 * DAY, 1, outcome="succeeded")]
    shown = drawn(a_run(state="SUCCESS", ended_at=START + 3 * DAY + 1), a_story(attempts))
    assert not shown.broken
    assert [tick.label for tick in shown.ticks][:2] == ["Sat 16", "Sun 17"]


def test_waits_of_days_do_not_press_everything_else_together() -> None:
    attempts = [an_attempt(each, each, 0.5, delay=0.5) for each in range(1, 6)]
    attempts += [an_attempt(6, 2 * DAY, 1, delay=DAY), an_attempt(7, 3 * DAY + 60, 1, outcome="succeeded")]
    shown = drawn(a_run(state="SUCCESS", ended_at=START + 3 * DAY + 61), a_story(attempts))
    assert shown.broken
    [lane, _] = shown.lanes
    starts = [each.x for each in lane.attempts]
    assert all(later - earlier > 1 for earlier, later in pairwise(starts))
    broken = [each for each in lane.segments if each.broken]
    assert {each.kind for each in broken} == {"queued", "waiting"}
    assert all(each.width <= 100 * MAX_SHARE + 0.01 for each in broken)
    assert any(each.label == "2 d" for each in broken)
    labels = [tick.label for tick in shown.ticks]
    assert labels[0].startswith("Fri 15")
    assert len(labels) > 2
    assert sum(label.startswith("Fri 15") for label in labels) == 1, "each day is named once"


def test_the_texts_of_a_segment_are_exact() -> None:
    story = a_story([an_attempt(3, 1, 0.25, error_type="TimeoutError", delay=4.0)])
    [_, attempt, waiting] = drawn(a_run(place=Place.WAITING), story, now=5).lanes[0].segments
    assert attempt.title == "attempt 3 failed: TimeoutError\nfor 250 ms\nfrom 2027-01-15 08:00:01 UTC"
    assert waiting.title == "waiting for retry\nfor 3.75 s\nfrom 2027-01-15 08:00:01 UTC"
    assert waiting.label == "3.75 s"


def test_a_short_run_is_measured_from_its_start() -> None:
    run = a_run(place=Place.LEASED, attempt_started_at=START, attempt=1)
    assert [each.label for each in drawn(run, a_story(), now=0.5).ticks] == [
        *("0", "+100 ms", "+200 ms", "+300 ms", "+400 ms", "+500 ms"),
    ]
    assert [each.label for each in drawn(run, a_story(), now=45).ticks] == [
        *("0", "+10 s", "+20 s", "+30 s", "+40 s"),
    ]


def test_a_run_of_this_moment_has_no_length_yet() -> None:
    shown = drawn(a_run(), a_story(), now=0)
    assert (shown.kinds, shown.outcomes, shown.seconds) == ({}, [], 0.0)
    assert all(not lane.segments for lane in shown.lanes)
    assert len(shown.ticks) == 1


def test_the_legend_names_every_drawn_kind() -> None:
    """The bar of a finished attempt has the color of its outcome."""
    attempt = an_attempt(1, 1, 1)
    done = drawn(a_run(), a_story([attempt]), now=2)
    assert ("running" in done.kinds, done.outcomes) == (False, [attempt.outcome])
    run = a_run(place=Place.LEASED, attempt_started_at=START, attempt=1)
    assert "running" in drawn(run, a_story(), now=1).kinds


MOMENTS = st.one_of(st.none(), st.floats(-10, 1e7))
ATTEMPTS = st.builds(
    lambda step, number, since, until, delay, outcome: an_attempt(
        number,
        0,
        0,
        step_index=step,
        outcome=outcome,
        delay=delay,
        started_at=None if since is None else START + since,
        ended_at=None if until is None else START + until,
    ),
    st.integers(0, 1),
    st.integers(1, 30),
    MOMENTS,
    MOMENTS,
    st.one_of(st.none(), st.floats(0, 1e6)),
    st.sampled_from(["succeeded", "failed", "released", "lost", "cancelled"]),
)
EVENTS = st.builds(
    happened, st.floats(-10, 1e7), st.sampled_from(["held", "released", "replayed", "started"])
)
RUNS = st.builds(
    lambda place, due, ended: a_run(
        place=place,
        due_at=None if due is None else START + due,
        ended_at=None if ended is None else START + ended,
    ),
    st.sampled_from(list(Place)),
    MOMENTS,
    MOMENTS,
)


@given(RUNS, st.lists(ATTEMPTS, max_size=30), st.lists(EVENTS, max_size=10), st.floats(0, 1e7))
def test_time_only_moves_forward_and_everything_is_inside_despite_wrong_clocks(
    run: RunSummary, attempts: list[AttemptView], events: list[TimelineEvent], now: float
) -> None:
    story = a_story(attempts, events)
    phases: list[Phase] = run_phases(run, story, START + now)
    assert all(each.until >= each.since >= START for each in phases)
    assert all(later.since == earlier.until for earlier, later in pairwise(phases))
    assert sum(each.kind == "running" for each in phases) >= len(attempts)
    shown = drawn(run, story, now)
    for lane in shown.lanes:
        for each in lane.segments:
            assert each.width >= 0
            assert 0 <= each.x <= each.x + each.width <= 100.01
    assert all(0 <= each.place <= 100 for each in shown.ticks)
    assert [each.place for each in shown.ticks] == sorted(each.place for each in shown.ticks)
    assert sum(len(lane.segments) for lane in shown.lanes) == len(phases)


@given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=40))
def test_in_a_broken_axis_no_wait_takes_more_than_its_share(waits: list[float]) -> None:
    attempts, at = [], 0.0
    for number, wait in enumerate(waits, 1):
        attempts.append(an_attempt(number, at, 0.1, delay=wait))
        at += 0.1 + wait
    [lane, _] = drawn(a_run(place=Place.WAITING), a_story(attempts), now=at).lanes
    broken = [each for each in lane.segments if each.broken]
    assert all(each.width <= 100 * MAX_SHARE * 1.001 for each in broken)
    whole = [each for each in lane.segments if each.kind == "waiting" and not each.broken]
    if broken and whole:
        assert max(each.width for each in whole) <= max(each.width for each in broken) + 0.01
    assert sum(each.width for each in lane.segments) == pytest.approx(100, abs=0.5)
