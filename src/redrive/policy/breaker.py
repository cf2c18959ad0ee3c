"""A circuit breaker as a state machine. Callers pass the time; the breaker has no clock and no timers.

    permit = breaker.admit(now)            a Permit, or a Refusal with the delay before the next try
    breaker.report(permit, outcome, now)   the result of the call

While the breaker is closed, every call passes and the windows record its result. While it is open, no call
passes until the cool-down is over. Then it is half-open and admits a few probes: each probe holds a slot for
a limited time, and a probe that fails or never reports opens the breaker again. Every change of state starts
a new generation; the breaker drops results of older generations.

A person may force the breaker open or closed. After a forced open state, the breaker is half-open and needs
successful probes. While it is forced closed it records nothing, and afterwards it starts with empty windows.

Processes share a breaker through a database row: `dump` returns its state as JSON, and `restored` continues
from that state.

Nearly all calls succeed through a closed breaker. While its windows contain no failure, the breaker only
counts such successes, and adds them to the windows before any other result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from redrive.errors import InvalidValueError
from redrive.model.breaker import BreakerSnapshot, BreakerState, CallOutcome, Force, Permit, Refusal
from redrive.model.failure import Category, Delivery, Failure
from redrive.policy.bounds import choice, require, require_kind, require_whole
from redrive.policy.breaker_policy import BreakerPolicy
from redrive.policy.window import MAX_COUNT, CountWindow, TimeWindow, Window

if TYPE_CHECKING:
    from redrive.policy.codec import JsonValue


PROBES_TAKEN_DELAY = 1.0
"""Seconds, at most, before a refused caller asks again while all probe slots are taken."""

FORCED_OPEN_DELAY = 60.0
"""Seconds, at most, before a refused caller asks again while the breaker is forced open."""

_LATEST = 1e15
_CLOSED, _OPEN, _HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


class Breaker:
    """The breaker of one dependency. It is not thread-safe: callers that share it must lock it."""

    __slots__ = (
        "_force",
        "_generation",
        "_last_probe",
        "_open_until",
        "_opened_at",
        "_policy",
        "_probe_successes",
        "_probes",
        "_quiet_successes",
        "_quiet_until",
        "_slow_seconds",
        "_state",
        "_windows",
        "closed_permit",
    )

    def __init__(self, policy: BreakerPolicy | None = None) -> None:
        self._policy = policy or BreakerPolicy()
        self._slow_seconds = math.inf if self._policy.slow_seconds is None else self._policy.slow_seconds
        self._force: Force | None = None
        self._generation = 0
        self._opened_at = self._open_until = 0.0
        self._last_probe = 0
        self._probes: dict[int, float] = {}
        self._windows: tuple[Window, ...] = ()
        self._quiet_successes = 0
        self.closed_permit: Permit | None = None
        self._enter(_CLOSED)

    @classmethod
    def restored(cls, policy: BreakerPolicy, dumped: Mapping[str, Any]) -> Breaker:
        """Restore a dumped breaker, or return a new one if the dump is unreadable.

        The windows start empty if the policy defines different ones.
        """
        breaker = cls(policy)
        try:
            breaker._load(dumped)
        except Exception:  # noqa: BLE001
            return cls(policy)
        return breaker

    def dump(self) -> dict[str, JsonValue]:
        """Return the state of the breaker as JSON values."""
        self._settle()
        force = self._force
        return {
            "state": self._state.value,
            "generation": self._generation,
            "opened_at": self._opened_at,
            "open_until": self._open_until,
            "last_probe": self._last_probe,
            "probes": {str(number): expiry for number, expiry in self._probes.items()},
            "probe_successes": self._probe_successes,
            "windows": [window.dump() for window in self._windows],
            "force": None if force is None else {**force._asdict(), "state": force.state.value},
        }

    def admit(self, now: float) -> Permit | Refusal:
        if self.closed_permit is not None:
            return self.closed_permit
        self._catch_up(now)
        if self._state is _CLOSED:
            return Permit(self._generation)
        if self._state is _OPEN:
            return self._refusal(now)
        if len(self._probes) < self._policy.probe_slots:
            return self._start_probe(now)
        lease_left = min(self._probes.values()) - now
        return Refusal(min(PROBES_TAKEN_DELAY, lease_left), probing=True)

    def report(
        self,
        permit: Permit,
        outcome: CallOutcome,
        now: float,
        seconds: float = 0.0,
        retry_after: float | None = None,
    ) -> None:
        """Count the result of a call that took `seconds`. `retry_after` is the wait the server asked for."""
        slow = seconds >= self._slow_seconds
        succeeded = outcome is CallOutcome.SUCCEEDED and not slow
        if succeeded and permit is self.closed_permit and now < self._quiet_until:
            self._quiet_successes += 1
            return
        self._catch_up(now)
        if permit.generation != self._generation:
            return
        if self._state is _CLOSED:
            self._count(outcome, slow, now, retry_after)
        elif self._probes.pop(permit.probe, None) is not None:
            self._end_probe(outcome, slow, now, retry_after)

    def force(self, force: Force | None, now: float) -> None:
        """Force the breaker open or closed; None ends the force."""
        self._catch_up(now)
        if force is not None:
            self._apply_force(_usable(force), now)
        elif self._force is not None:
            self._end_force(self._force)

    def state_at(self, now: float) -> BreakerState:
        self._catch_up(now)
        return self._state

    def snapshot(self, now: float) -> BreakerSnapshot:
        self._catch_up(now)
        self._settle()
        window = self._windows[0]
        return BreakerSnapshot(
            self._state,
            self._generation,
            window.calls,
            window.failures,
            window.slow_calls,
            opened_at=None if self._state is _CLOSED else self._opened_at,
            open_until=self._refuses_until(now) if self._state is _OPEN else None,
            probes_in_progress=len(self._probes),
            probe_successes=self._probe_successes,
            force=self._force,
        )

    def _refusal(self, now: float) -> Refusal:
        if self._force is None:
            return Refusal(self._open_until - now)
        until = self._force.until
        return Refusal(FORCED_OPEN_DELAY if until is None else min(FORCED_OPEN_DELAY, until - now))

    def _refuses_until(self, now: float) -> float:
        if self._force is None:
            return self._open_until
        return now + FORCED_OPEN_DELAY if self._force.until is None else self._force.until

    def _apply_force(self, force: Force, now: float) -> None:
        if force.is_over(now):
            raise InvalidValueError(f"until must be later than now ({now!r}), got {force.until!r}")
        self._settle()
        self._force = force
        self._opened_at = now
        self._enter(force.state)

    def _end_force(self, force: Force) -> None:
        self._force = None
        self._enter(_HALF_OPEN if force.state is _OPEN else _CLOSED)

    def _count(self, outcome: CallOutcome, slow: bool, now: float, retry_after: float | None) -> None:
        if outcome is CallOutcome.NOTHING or self._force is not None:
            return
        self._settle()
        for window in self._windows:
            window.record(now, failed=outcome is CallOutcome.FAILED, slow=slow)
        if any(self._is_too_much(window) for window in self._windows):
            self._open(now, retry_after)
        elif not any(window.failures or window.slow_calls for window in self._windows):
            self._quiet_until = min(window.steady_until(now) for window in self._windows)

    def _settle(self) -> None:
        """Add the counted successes to the windows."""
        if self._quiet_successes:
            for window in self._windows:
                window.add_successes(self._quiet_successes)
        self._quiet_successes = 0
        self._quiet_until = -math.inf

    def _is_too_much(self, window: Window) -> bool:
        policy = self._policy
        enough = policy.enough_calls if isinstance(window, CountWindow) else policy.enough_recent_calls
        if enough is None or window.calls < enough:
            return False
        failing = window.failures / window.calls >= self._policy.failure_rate
        return failing or window.slow_calls / window.calls >= self._policy.slow_rate

    def _start_probe(self, now: float) -> Permit:
        self._last_probe += 1
        self._probes[self._last_probe] = now + self._policy.probe_seconds
        return Permit(self._generation, self._last_probe)

    def _end_probe(self, outcome: CallOutcome, slow: bool, now: float, retry_after: float | None) -> None:
        if outcome is CallOutcome.NOTHING:
            return
        if outcome is CallOutcome.FAILED or slow:
            self._open(now, retry_after)
            return
        self._probe_successes += 1
        if self._probe_successes >= self._policy.successes_to_close:
            self._enter(_CLOSED)

    def _catch_up(self, now: float) -> None:
        """Apply the changes of state that are due by `now`.

        They apply as of their due time, however late this call is: an expired probe opens the breaker at its
        expiry, and the cool-down starts there.
        """
        if self._force is not None:
            if self._force.is_over(now):
                self._end_force(self._force)
            return
        if self._state is _HALF_OPEN and self._probes:
            expiry = min(self._probes.values())
            if expiry <= now:
                self._open(expiry, None)
        if self._state is _OPEN and self._open_until <= now:
            self._enter(_HALF_OPEN)

    def _open(self, at: float, retry_after: float | None) -> None:
        wait = max(self._policy.cool_down, retry_after or 0.0)
        self._opened_at = at
        self._open_until = at + min(wait, self._policy.longest_open)
        self._enter(_OPEN)

    def _enter(self, state: BreakerState) -> None:
        self._state = state
        self._generation += 1
        forced = self._force is not None
        self.closed_permit = Permit(self._generation) if state is _CLOSED and not forced else None
        self._probes.clear()
        self._probe_successes = 0
        self._quiet_successes = 0
        self._quiet_until = -math.inf
        if state is _CLOSED:
            self._windows = self._new_windows()

    def _new_windows(self) -> tuple[Window, ...]:
        policy = self._policy
        windows: list[Window] = []
        if policy.window_calls is not None:
            windows.append(CountWindow(policy.window_calls))
        if policy.window_seconds is not None:
            windows.append(TimeWindow(policy.window_seconds))
        return tuple(windows)

    def _load(self, dumped: Mapping[str, Any]) -> None:
        """Load the values of `dump`. Raises any exception if they are invalid."""
        force = self._force = None if dumped["force"] is None else _usable(Force(**dumped["force"]))
        self._generation = _checked_count(dumped["generation"]) - 1
        self._enter(BreakerState(dumped["state"]) if force is None else force.state)
        self._opened_at = _checked_instant(dumped["opened_at"])
        self._open_until = _checked_instant(dumped["open_until"])
        self._last_probe = _checked_count(dumped["last_probe"])
        self._probes = {int(number): _checked_instant(expiry) for number, expiry in dumped["probes"].items()}
        self._probe_successes = _checked_count(dumped["probe_successes"])
        self._windows = self._loaded_windows(dumped["windows"])

    def _loaded_windows(self, dumped: list[Any]) -> tuple[Window, ...]:
        windows = self._new_windows()
        try:
            for window, values in zip(windows, dumped, strict=True):
                window.load(values)
        except Exception:  # noqa: BLE001
            return self._new_windows()
        return windows


def _usable(force: Force) -> Force:
    state = choice("state", force.state, BreakerState)
    if state is _HALF_OPEN:
        raise InvalidValueError("a breaker can be forced OPEN or CLOSED, but not HALF_OPEN")
    require_kind("reason", force.reason, str)
    require_kind("by", force.by, str)
    if force.until is not None:
        _checked_instant(force.until)
    return force._replace(state=state)


def _checked_instant(value: float) -> float:
    require("an instant", value, -_LATEST, _LATEST)
    return value


def _checked_count(value: int) -> int:
    require_whole("a count", value, 0, MAX_COUNT)
    return value


def outcome_of(failure: Failure | None) -> CallOutcome:
    """Count timeouts, network errors and 5xx responses as failures; other responses as successes."""
    if failure is None:
        return CallOutcome.SUCCEEDED
    if failure.http_status is not None and 400 <= failure.http_status < 500:
        return CallOutcome.SUCCEEDED
    if failure.category in COUNTED and not failure.unavailable:
        return CallOutcome.FAILED
    answered = failure.delivery is Delivery.SEEN and failure.category is not Category.CANCELLED
    return CallOutcome.SUCCEEDED if answered else CallOutcome.NOTHING


COUNTED = frozenset({Category.TIMEOUT, Category.NETWORK, Category.PROVIDER_5XX})
