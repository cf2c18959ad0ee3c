"""I11: Redrive dispatches nothing bound to an open breaker, and probes never exceed their slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tests.simulation.catalog import BREAKER_POLICY
from tests.simulation.loop import Process
from tests.simulation.watcher import Blind

from redrive.model.breaker import BreakerState
from redrive.policy.breaker import Breaker
from redrive.policy.codec import decode
from redrive.testing import EPOCH

MOMENT = 1e-6
"""The rounding error of instants since 1970, in seconds."""


class _Probe(NamedTuple):
    process: Process
    generation: int
    begun_at: float


class _Known:
    """The state of a breaker, and when it was last seen not open, and closed."""

    def __init__(self) -> None:
        self.breaker = Breaker(BREAKER_POLICY)
        self.body = "{}"
        self.passable_at = self.closed_at = 0.0
        self.generation = 1
        self.probes: dict[tuple[str, int], _Probe] = {}


class BreakerWatch:
    """Checks the rows of the breakers, and the steps that start."""

    def __init__(self, watcher: Blind) -> None:
        self._watcher = watcher
        self._known: dict[str, _Known] = {}

    def changed(self, rows: Iterable[Sequence[Any]]) -> None:
        """Note changed breakers. `written_at` is the time of the transaction, and so of its decisions."""
        for name, body, written_at in rows:
            known = self._known.setdefault(name, _Known())
            if body == known.body:
                continue
            self._look(known, written_at)
            dumped: Any = decode(body)
            known.body = body
            known.breaker = Breaker.restored(BREAKER_POLICY, dumped)
            known.generation = dumped.get("generation", 1)
            snapshot = known.breaker.snapshot(written_at)
            if (
                snapshot.state is BreakerState.HALF_OPEN
                and snapshot.probes_in_progress > BREAKER_POLICY.probe_slots
            ):
                self._watcher.find("I11", name, f"{snapshot.probes_in_progress} probes are under way")
            self._look(known, written_at)

    def dispatched(self, name: str, process: Process, run_id: str, epoch: int, claimed_at: float) -> None:
        known = self._known.get(name)
        if known is None:
            return
        state = self._look(known, EPOCH + self._watcher.now)
        if state is BreakerState.OPEN and known.passable_at < claimed_at - MOMENT:
            self._watcher.find(
                "I11", run_id, f"executed although {name} has been open since before its claim"
            )
        if state is BreakerState.HALF_OPEN and known.closed_at < claimed_at - MOMENT:
            known.probes[run_id, epoch] = _Probe(process, known.generation, self._watcher.now)
            self._check_probes(name, known)

    def has_been_open_since(self, name: str, moment: float) -> bool:
        """Tell whether the breaker was open since then, without a break: a read at that time saw it open."""
        known = self._known.get(name)
        if known is None or self._look(known, EPOCH + self._watcher.now) is not BreakerState.OPEN:
            return False
        return known.passable_at < moment - MOMENT

    def landed(self, name: str, run_id: str, epoch: int) -> None:
        if name in self._known:
            self._known[name].probes.pop((run_id, epoch), None)

    def _check_probes(self, name: str, known: _Known) -> None:
        oldest = self._watcher.now - BREAKER_POLICY.probe_seconds
        under_way = [
            probe
            for probe in known.probes.values()
            if probe.process.alive and probe.generation == known.generation and probe.begun_at > oldest
        ]
        if len(under_way) > BREAKER_POLICY.probe_slots:
            self._watcher.find("I11", name, f"{len(under_way)} probes are executed at once")

    def _look(self, known: _Known, at: float) -> BreakerState:
        state = known.breaker.snapshot(at).state
        if state is not BreakerState.OPEN:
            known.passable_at = max(known.passable_at, at - EPOCH)
        if state is BreakerState.CLOSED:
            known.closed_at = max(known.closed_at, at - EPOCH)
        return state
