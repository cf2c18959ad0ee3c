"""Forked processes: threads end, and connections must not be shared with the parent.

An object with a thread, a connection or a lock joins with `join_forks`. Before a fork it gives up what a
child could damage, and in the child it resets itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock
from typing import Protocol
from weakref import WeakValueDictionary

PAUSE_TIMEOUT = 15.0
"""Seconds that a fork waits for a thread, for example for a statement that waits for a lock."""


class Forkable(Protocol):
    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


class ResetInChild:
    """A base for objects that give nothing up before a fork, and only reset themselves in the child."""

    def before_fork(self) -> None:
        """Do nothing."""

    def after_fork_in_parent(self) -> None:
        """Do nothing."""


class Pause:
    """Keeps a thread at rest during a fork. The thread calls `wait`, the forking thread the other methods."""

    def __init__(self) -> None:
        self._reached = Event()
        self._over = Event()

    def wait(self) -> None:
        self._reached.set()
        self._over.wait()

    def await_rest(self) -> None:
        self._reached.wait(PAUSE_TIMEOUT)

    def end(self) -> None:
        self._over.set()


_one_at_a_time = Lock()
_members: WeakValueDictionary[int, Forkable] = WeakValueDictionary()


def join_forks(member: Forkable) -> None:
    """Call the methods of `member` around each fork, as long as it lives."""
    _members[id(member)] = member


def never_finalize(*inherited: object) -> None:
    """Keep objects of the parent alive in the child until its end.

    Their finalizers would close connections that the parent still uses.
    """
    with suppress(ImportError, AttributeError):  # another Python than CPython
        from ctypes import py_object, pythonapi

        for thing in inherited:
            pythonapi.Py_IncRef(py_object(thing))


def _call_each(call: Callable[[Forkable], None]) -> None:
    for reference in _members.valuerefs():
        member = reference()
        if member is not None:
            call(member)


def _before_fork() -> None:
    _one_at_a_time.acquire()
    _call_each(lambda member: member.before_fork())


def _after_fork_in_parent() -> None:
    _call_each(lambda member: member.after_fork_in_parent())
    _one_at_a_time.release()


def _after_fork_in_child() -> None:
    _call_each(lambda member: member.after_fork_in_child())
    _one_at_a_time.release()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
