"""Execute a function once per idempotency key: `app.idempotent`, as a decorator or called directly."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from inspect import iscoroutinefunction, signature
from typing import Any, TypedDict, TypeVar, Unpack, cast, get_type_hints

from redrive.duration import Seconds
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.engine.payload import converter
from redrive.engine.task import checked_name, reject_unknown
from redrive.errors import InvalidValueError
from redrive.idempotency.hold import Hold
from redrive.idempotency.service import Idempotency, StoredOutcome
from redrive.policy.classify import Classifier
from redrive.policy.codec import JsonValue

F = TypeVar("F", bound=Callable[..., Any])
Wait = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine on a background loop, for callers without an event loop."""


class LeaseOptions(TypedDict, total=False):
    """Options of the lease on a key; see Idempotency.take."""

    ttl: Seconds
    lease_seconds: Seconds
    wait: Seconds
    domain: str
    user: str


class KeyOptions(LeaseOptions, total=False):
    """Options of an idempotent execution; see Idempotency.run."""

    classifier: Classifier | None


class Idempotent:
    """Executes a request once per key: `@app.idempotent(key=...)`, or `await app.idempotent.run(...)`.

    `service_of` returns the service of an organization.
    """

    def __init__(self, service_of: Callable[[str], Idempotency], wait: Wait) -> None:
        self._service_of = service_of
        self._wait = wait

    def __call__(
        self, key: Callable[..., str], *, org: str = DEFAULT_ORG, **options: Unpack[KeyOptions]
    ) -> Callable[[F], F]:
        """Decorate a function so that it runs once per key, which `key` computes from the arguments.

        `domain` defaults to the name of the function.
        """
        reject_unknown("an idempotent function has no option", options, KeyOptions.__optional_keys__)
        if not callable(key):
            raise InvalidValueError(f"key must be a function of the arguments, got {key!r:.200}")
        org = checked_name("org", org)
        return lambda function: self._decorated(function, key, org, options)

    async def run(
        self,
        key: str,
        request: object,
        function: Callable[[], Any],
        *,
        org: str = DEFAULT_ORG,
        **options: Unpack[KeyOptions],
    ) -> JsonValue:
        """Return the stored result of this request, or else call `function` and return its result as JSON."""
        return await self._service_of(org).run(key, request, function, **options)

    async def take(
        self, key: str, request: object, *, org: str = DEFAULT_ORG, **options: Unpack[LeaseOptions]
    ) -> StoredOutcome | Hold:
        """Return the stored outcome of the request, or else a Hold, which is the right to execute it."""
        return await self._service_of(org).take(key, request, **options)

    def _decorated(self, function: F, key: Callable[..., str], org: str, options: KeyOptions) -> F:
        """Wrap a sync or async function. Stored results are converted to the annotated return type."""
        convert = converter(_return_type(function), name=f"the result of {function.__name__}")
        options = {"domain": function.__name__, **options}
        arguments = signature(function)

        async def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            bound = arguments.bind(*args, **kwargs)
            bound.apply_defaults()
            name, work = key(*args, **kwargs), partial(function, *args, **kwargs)
            value = await self._service_of(org).run(name, bound.arguments, work, **options)
            return convert(value)

        if not iscoroutinefunction(function):
            return cast(F, wraps(function)(lambda *args, **kwargs: self._wait(run(args, kwargs))))

        @wraps(function)
        async def called(*args: Any, **kwargs: Any) -> Any:
            return await run(args, kwargs)

        return cast(F, called)


def _return_type(function: Callable[..., Any]) -> Any:
    """Return the annotated return type; None if it is missing or can't be resolved."""
    try:
        return get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 — evaluating annotations can raise anything
        return None
