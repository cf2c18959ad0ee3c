"""A function that is executed once for each key: the decorator around `Idempotency.run`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from inspect import iscoroutinefunction, signature
from typing import Any, TypedDict, TypeVar, cast, get_type_hints

from redrive.engine.payload import reader
from redrive.engine.task import reject_unknown
from redrive.errors import InvalidValueError
from redrive.idempotency.service import Idempotency
from redrive.policy.classify import Classifier

F = TypeVar("F", bound=Callable[..., Any])
Wait = Callable[[Coroutine[Any, Any, Any]], Any]
"""Has a coroutine done on a loop in the background, for callers that have none."""


class KeyOptions(TypedDict, total=False):
    """How a function is made idempotent: see Idempotency.run. The domain is its name unless given."""

    ttl: float
    lease_seconds: float
    wait: float
    domain: str
    user: str
    classifier: Classifier | None


class Idempotent:
    """`key` is given the arguments of the function, which are the request. Of a sync function a sync one is
    made; what it gives has the type that the function is annotated with, also when it was stored."""

    def __init__(
        self, service: Callable[[], Idempotency], wait: Wait, key: Callable[..., str], options: KeyOptions
    ) -> None:
        reject_unknown("an idempotent function has no option", options, KeyOptions.__optional_keys__)
        if not callable(key):
            raise InvalidValueError(f"key must be a function of the arguments, got {key!r:.200}")
        self._service = service
        self._wait = wait
        self._key = key
        self._options = options

    def __call__(self, function: F) -> F:
        read = reader(_returned(function), name=f"what {function.__name__} returns")
        options: KeyOptions = {"domain": function.__name__, **self._options}
        arguments = signature(function)

        async def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            bound = arguments.bind(*args, **kwargs)
            bound.apply_defaults()
            key, work = self._key(*args, **kwargs), partial(function, *args, **kwargs)
            value = await self._service().run(key, bound.arguments, work, **options)
            return value if read is None else read(value)

        if not iscoroutinefunction(function):
            return cast(F, wraps(function)(lambda *args, **kwargs: self._wait(run(args, kwargs))))

        @wraps(function)
        async def called(*args: Any, **kwargs: Any) -> Any:
            return await run(args, kwargs)

        return cast(F, called)


def _returned(function: Callable[..., Any]) -> Any:
    """The annotation of the result; nothing, where it cannot be resolved."""
    try:
        return get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 — evaluating annotations runs anything
        return None
