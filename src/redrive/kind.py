"""What kind of function is this? Whoever calls it has to know before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import (
    CO_ASYNC_GENERATOR,
    CO_COROUTINE,
    CO_GENERATOR,
    isasyncgenfunction,
    iscoroutinefunction,
    isgeneratorfunction,
)
from types import FunctionType
from typing import Any

from redrive.errors import InvalidValueError

_GENERATOR = CO_GENERATOR | CO_ASYNC_GENERATOR


def is_async(function: Callable[..., object]) -> bool:
    """Is its result to be awaited? Refuses what cannot be guarded at all."""
    if type(function) is FunctionType and not function.__dict__:
        flags = function.__code__.co_flags  # the same answers as below, found faster
        if not flags & _GENERATOR:
            return bool(flags & CO_COROUTINE)
    if not callable(function):
        raise InvalidValueError(f"{function!r} cannot be called, so it cannot be guarded")
    inner = innermost(function)
    if _is_generator(inner) or _is_generator(type(inner).__call__):
        raise InvalidValueError(f"{name_of(function)} is a generator; guard the calls that it makes instead")
    return iscoroutinefunction(inner) or iscoroutinefunction(type(inner).__call__)


def innermost(function: Any) -> Any:
    """The function itself, behind all partials of it."""
    while isinstance(function, partial):
        function = function.func
    return function


def name_of(function: object) -> str:
    """What a person would call it; partial functions and callable objects have no name of their own."""
    inner = innermost(function)
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))


def _is_generator(function: Callable[..., object]) -> bool:
    return isgeneratorfunction(function) or isasyncgenfunction(function)
