"""Runs with an order key: one at a time, in the order in which their starts were committed (I4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tests.simulation.generate import PROCEEDS
from tests.simulation.letter_watch import LetterWatch
from tests.simulation.watcher import Blind


class OrderedRow(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def org(self) -> str: ...
    @property
    def order_key(self) -> str | None: ...
    @property
    def place(self) -> str: ...
    @property
    def held_by(self) -> str | None: ...


class OrderWatch:
    """Keeps the order by itself: a run leaves it at its end, or when its dead letter is closed."""

    def __init__(self, watcher: Blind, runs: Mapping[str, OrderedRow], letters: LetterWatch) -> None:
        self._watcher = watcher
        self._runs = runs
        self._letters = letters
        self._blocking: set[str] = set()
        self._orders: dict[tuple[str, str], list[str]] = {}

    def changed(self, before: OrderedRow | None, after: OrderedRow) -> None:
        """Call it for each run of a commit, in the order of their inserts; then call `look`."""
        if after.order_key is None:
            return
        order = self._orders.setdefault((after.org, after.order_key), [])
        if before is None:
            order.append(after.id)
            return
        if after.place == "leased" and before.place != "leased" and after.id in order:
            if order[0] != after.id:
                text = f"was claimed, but {order[0]} is before it in the order of {after.order_key!r}"
                self._watcher.find("I4", after.id, text)
            elif before.held_by is None and len(order) > 1:
                self._watcher.bitten["executed with others behind"] += 1

    def look(self) -> None:
        """Let those leave that have ended."""
        for (_, key), order in self._orders.items():
            left = [run_id for run_id in order if self._has_left(run_id, key)]
            if len(left) < len(order) and left:
                self._watcher.bitten["released in order"] += 1
            order[:] = [run_id for run_id in order if run_id not in left]

    def _has_left(self, run_id: str, key: str) -> bool:
        if self._runs[run_id].place != "ended":
            return False
        if key.endswith(PROCEEDS) or not self._letters.is_live(run_id):
            return True
        if run_id not in self._blocking:
            self._blocking.add(run_id)
            self._watcher.bitten["blocked in order"] += 1
        return False
