"""The event bus: calls listeners with events. An exception in a listener is swallowed."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable

from redrive.model.event import Event

Listener = Callable[[Event], object]


class EventBus:
    """Calls listeners. A listener may have a method `wants(kind)` to receive only some kinds of events."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    def listen(self, listener: Listener) -> None:
        self._listeners += (listener,)

    def forget(self, listener: Listener) -> None:
        rest = list(self._listeners)
        rest.remove(listener)
        self._listeners = tuple(rest)

    def is_subscribed(self, kind: type[Event]) -> bool:
        """Whether a listener wants events of this kind. If not, frequent events need not be created."""
        for listener in self._listeners:  # noqa: SIM110 — called for every run
            if _wants(listener, kind):
                return True
        return False

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                if _wants(listener, type(event)):
                    listener(event)
            except (Exception, CancelledError):  # noqa: BLE001, S112 — listeners are user code
                continue


def _wants(listener: Listener, kind: type[Event]) -> bool:
    wants = getattr(listener, "wants", None)
    if wants is None:
        return True
    try:
        return bool(wants(kind))
    except Exception:  # noqa: BLE001
        return True
