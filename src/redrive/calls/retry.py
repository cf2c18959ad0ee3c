"""Entry points of guarded calls: `@retry` for a function, `call` for a single call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from redrive.callables import name_of
from redrive.calls.attempt import Attempt
from redrive.calls.guard import Guard, GuardOptions, reject_unknown
from redrive.errors import InvalidValueError

P = ParamSpec("P")
R = TypeVar("R")


@overload
def retry(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def retry(
    operation: str | None = None, /, **options: Unpack[GuardOptions]
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def retry(
    operation: str | Callable[..., Any] | None = None, /, **options: Unpack[GuardOptions]
) -> Callable[..., Any]:
    """Guard a function, sync or async: `@retry`, `@retry("charge card", max_attempts=5)`.

    Without a name, the operation is called like the function. `help(redrive.Guard)` lists the options.
    """
    reject_unknown(options, GuardOptions)
    if isinstance(operation, type) and issubclass(operation, BaseException):
        raise InvalidValueError(
            "retry takes no exception classes: what is retried follows from what an error means; "
            "give rules of your own as classifier=Classifier([Rule.for_type(...)])"
        )
    if operation is None or isinstance(operation, str):
        return lambda function: Guard(operation or name_of(function), **options)(function)
    return Guard(name_of(operation))(operation)


def call(operation: str, function: Callable[[Attempt], R], **options: Unpack[GuardOptions]) -> R:
    """Make one guarded call of `function(attempt)`; an async function gives an awaitable of its result."""
    if not options:
        return _plain_guard(operation).call(function)
    reject_unknown(options, GuardOptions)
    return Guard(operation, **options).call(function)


_PLAIN_GUARDS: dict[str, Guard] = {}
_MAX_PLAIN_GUARDS = 1024


def _plain_guard(operation: str) -> Guard:
    guard = _PLAIN_GUARDS.get(operation)
    if guard is None:
        if len(_PLAIN_GUARDS) >= _MAX_PLAIN_GUARDS:
            _PLAIN_GUARDS.clear()
        guard = _PLAIN_GUARDS[operation] = Guard(operation)
    return guard
