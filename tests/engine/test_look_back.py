"""How much of an index each poll reads."""

from __future__ import annotations

from tests.engine.hand_clock import HandClock

from redrive.engine.look_back import INTERVAL_FACTOR, MAX_INTERVAL_SECONDS, LookBack
from redrive.store.leases import FROM_THE_BEGINNING


def look(look_back: LookBack, clock: HandClock, seconds: float, reached: float) -> float:
    floor, since = look_back.floor(), clock.monotonic()
    clock.time += seconds
    look_back.looked(floor, since, reached)
    return floor


def test_every_look_is_from_the_beginning_while_that_is_quick() -> None:
    clock = HandClock()
    look_back = LookBack(clock)

    for number in range(5):
        assert look(look_back, clock, 0.001, float(number)) == FROM_THE_BEGINNING
        clock.time += 0.02


def test_a_slow_look_back_takes_a_share_of_the_time() -> None:
    clock = HandClock()
    look_back = LookBack(clock)
    look(look_back, clock, 0.5, 100.0)

    clock.time += 0.5 * INTERVAL_FACTOR - 0.2
    assert look(look_back, clock, 0.1, 105.0) == 100.0
    assert look_back.floor() == 105.0
    clock.time += 0.2
    assert look_back.floor() == FROM_THE_BEGINNING


def test_a_look_back_is_never_far_away() -> None:
    clock = HandClock()
    look_back = LookBack(clock)
    look(look_back, clock, 600.0, 100.0)

    clock.time += MAX_INTERVAL_SECONDS
    assert look_back.floor() == FROM_THE_BEGINNING


def test_look_backs_may_have_a_distance_however_quick_they_are() -> None:
    clock = HandClock()
    look_back = LookBack(clock, min_interval=0.25)
    look(look_back, clock, 0.001, 7.0)

    clock.time += 0.2
    assert look_back.floor() == 7.0
    clock.time += 0.05
    assert look_back.floor() == FROM_THE_BEGINNING


def test_without_a_floor_a_poll_starts_at_the_beginning() -> None:
    clock = HandClock()
    look_back = LookBack(clock, min_interval=0.25)
    look(look_back, clock, 0.001, FROM_THE_BEGINNING)

    assert look_back.floor() == FROM_THE_BEGINNING
