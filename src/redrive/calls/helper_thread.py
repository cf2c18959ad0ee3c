"""Runs a sync function in a helper thread, so that the caller gets its timeout on time."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from threading import Thread
from typing import ParamSpec, TypeVar, cast

from redrive.calls.attempt import CURRENT, Attempt

P = ParamSpec("P")
R = TypeVar("R")


def with_hard_timeout(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs in a thread of its own and raises AttemptTimeoutError when its time is up.

    Python cannot stop a thread: the function continues in the background, and its result is dropped. The
    thread is a daemon, so it does not keep the process alive.
    """

    def bounded(*args: P.args, **kwargs: P.kwargs) -> R:
        attempt = cast("Attempt", CURRENT.get())
        context = copy_context()
        results: list[R] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(context.run(function, *args, **kwargs))
            except BaseException as error:  # noqa: BLE001 — raised again in the thread of the caller
                errors.append(error)

        thread = Thread(target=work, name=f"redrive call {attempt.operation}", daemon=True)
        thread.start()
        thread.join(attempt.remaining())
        try:
            if results:
                return results[0]
            raise errors[0] if errors else attempt.out_of_time()
        finally:
            errors.clear()  # break a cycle: an error references this frame

    return bounded
