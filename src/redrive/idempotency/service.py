"""Idempotency for any code: a request that comes again under the same key is executed once.

Only the hash of a request is stored, never the request. What came of it is stored as JSON, encrypted where
there is a key for that, and forgotten after `ttl` seconds. Whoever executes it holds the key by a lease: a
crash frees the key for the same request once the lease has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, NamedTuple

from redrive.duration import Seconds
from redrive.engine.evidence import evidence_of
from redrive.engine.payload import to_json
from redrive.errors import (
    InProgressError,
    InvalidValueError,
    KeyReusedError,
    LeaseLostError,
    RecordedFailureError,
    StoreError,
    StoreUnavailableError,
)
from redrive.idempotency.hold import Hold, KeyServices
from redrive.model.idempotency import KeyName, KeyState, RequestStatus
from redrive.policy.bounds import MAX_DELAY_SECONDS, require_kind, require_seconds
from redrive.policy.classify import DEFAULT_CLASSIFIER, Classifier
from redrive.policy.codec import JsonValue, decode
from redrive.policy.idempotency_key import (
    MAX_KEY_LENGTH,
    checked_key,
    request_hash,
    request_status,
    retry_after,
)
from redrive.store.idempotency import IdempotencyKeys

DAY = 86_400.0
LEASE_SECONDS = 60.0
MAX_LEASE_SECONDS = 3_600.0
FIRST_PAUSE, MAX_PAUSE_SECONDS = 0.02, 0.5
SWEPT_EVERY, MAX_SWEEP = 100, 200
"""Every so many requests that are executed, so many expired keys are removed: there may be no worker."""


class KeptOutcome(NamedTuple):
    """The request was executed before; this came of it."""

    value: JsonValue


class _Asked(NamedTuple):
    """A request, checked."""

    name: KeyName
    request_hash: str
    lease_seconds: float
    ttl: float


class Idempotency:
    def __init__(self, services: KeyServices, keys: IdempotencyKeys, org: str) -> None:
        self._services = services
        self._keys = keys
        self._org = org

    def __repr__(self) -> str:
        return f"<Idempotency of {self._org!r}>"

    async def run(
        self,
        key: str,
        request: object,
        function: Callable[[], Any],
        *,
        ttl: Seconds = DAY,
        lease_seconds: Seconds = LEASE_SECONDS,
        wait: Seconds = 0.0,
        domain: str = "",
        user: str = "",
        classifier: Classifier | None = None,
    ) -> JsonValue:
        """What `function` gives for this request, as JSON; it is called unless that is known already.

        KeyReusedError        the key came with another request before
        InProgressError       somebody else is executing it; with `wait`, after waiting that long
        RecordedFailureError  it has failed before, for good: trying again cannot help, says the classifier
        LeaseLostError        somebody else may have executed it meanwhile; ask again for what is kept

        Any other failure of the function, a transient one or a cancellation, releases the key.
        """
        if not callable(function):
            raise InvalidValueError(f"function must be callable without arguments, got {function!r:.200}")
        if classifier is not None:
            require_kind("classifier", classifier, Classifier)
        taken = await self.take(
            key, request, ttl=ttl, lease_seconds=lease_seconds, wait=wait, domain=domain, user=user
        )
        if isinstance(taken, KeptOutcome):
            return taken.value
        if iscoroutinefunction(function):
            return await self._execute(taken, function, classifier)
        # A thread cannot be cancelled: the key stays with it until it has ended.
        return await self._services.begin(self._execute(taken, partial(_in_thread, function), classifier))

    async def take(
        self,
        key: str,
        request: object,
        *,
        ttl: Seconds = DAY,
        lease_seconds: Seconds = LEASE_SECONDS,
        wait: Seconds = 0.0,
        domain: str = "",
        user: str = "",
    ) -> KeptOutcome | Hold:
        """What came of the request before; or else the right to execute it: see Hold."""
        asked = self._asked(key, request, ttl, lease_seconds, domain, user)
        wait = require_seconds("wait", wait, 0.0, MAX_DELAY_SECONDS)
        clock, pause = self._services.clock, FIRST_PAUSE
        deadline = clock.monotonic() + wait
        while not isinstance(taken := await self._take_now(asked), KeptOutcome | Hold):
            left = deadline - clock.monotonic()
            if left <= 0.0:
                raise _in_progress(asked.name, taken)
            await clock.sleep(min(pause, left))
            pause = min(1.5 * pause, MAX_PAUSE_SECONDS)
        return taken

    def _asked(
        self, key: object, request: object, ttl: Seconds, lease_seconds: Seconds, domain: object, user: object
    ) -> _Asked:
        ttl = require_seconds("ttl", ttl, 1.0, MAX_DELAY_SECONDS)
        lease_seconds = require_seconds("lease_seconds", lease_seconds, 1.0, MAX_LEASE_SECONDS)
        name = KeyName(self._org, _checked("domain", domain), _checked("user", user), checked_key(key))
        limits = self._services.limits
        digest = request_hash(to_json(request, limits=limits), limits=limits)
        return _Asked(name, digest, float(lease_seconds), float(ttl))

    async def _take_now(self, asked: _Asked) -> KeptOutcome | Hold | KeyState:
        """The state of the key, where somebody else holds it."""
        while True:
            hold = await self._acquired(asked)
            if hold is not None:
                return hold
            state = await self._keys.find(asked.name)
            status = RequestStatus.FREE if state is None else request_status(state, asked.request_hash)
            if state is None or status is RequestStatus.FREE:
                continue
            return state if status is RequestStatus.IN_PROGRESS else self._known(asked.name, state, status)

    async def _acquired(self, asked: _Asked) -> Hold | None:
        name, digest, lease_seconds, ttl = asked
        token, since = self._services.ids.token(), self._services.clock.monotonic()
        action = partial(self._keys.acquire, name, digest, token, lease_seconds=lease_seconds, ttl=ttl)
        hold = Hold(self._services, self._keys, name, token, since, lease_seconds=lease_seconds, ttl=ttl)
        try:
            won = await self._services.persist(action)
        except BaseException:  # it may be ours nevertheless
            await hold.release()
            raise
        if won:
            await self._sweep()
        return hold if won else None

    def _known(self, name: KeyName, state: KeyState, status: RequestStatus) -> KeptOutcome:
        if status is RequestStatus.REUSED:
            raise KeyReusedError(
                f"the idempotency key {name.key!r} came with another request before; use a new key for a new "
                f"request, and the same key only to repeat the very same one"
            )
        if status is RequestStatus.FAILED:
            raise self._recorded(name, state)
        return KeptOutcome(decode(self._services.encryption.decrypt(state.response or "null")))

    def _recorded(self, name: KeyName, state: KeyState) -> RecordedFailureError:
        error: Any = decode(self._services.encryption.decrypt(state.error or "{}"))
        kind, message = error.get("type", "an error"), error.get("message", "")
        return RecordedFailureError(
            f"the request with the idempotency key {name.key!r} has failed before with {kind}: {message}; it "
            f"is not executed again. Repair the cause and use a new key",
            error_type=kind,
            error_message=message,
        )

    async def _execute(
        self, hold: Hold, function: Callable[[], Any], classifier: Classifier | None
    ) -> JsonValue:
        async with hold:
            try:
                result = await function()
            except Exception as error:
                await self._failed(hold, error, classifier or DEFAULT_CLASSIFIER)
                raise
            return await hold.complete(result)

    async def _failed(self, hold: Hold, error: Exception, classifier: Classifier) -> None:
        """Where it is not for good, the hold releases the key by itself."""
        now = self._services.clock.now()
        if isinstance(error, StoreUnavailableError | LeaseLostError) or classifier.classify(error).retryable:
            return
        evidence = evidence_of(
            error, classifier=classifier, redactor=self._services.redactor, step="idempotency", now=now
        )
        failure = evidence.failure
        with suppress(StoreError, LeaseLostError):  # the failure itself is what the caller has to see
            await hold.fail({"type": failure.error_type, "message": failure.message})

    async def _sweep(self) -> None:
        if next(self._services.executed) % SWEPT_EVERY == 0:
            with suppress(StoreError):
                await self._keys.remove_expired(MAX_SWEEP)


async def _in_thread(function: Callable[[], Any]) -> Any:
    result = await asyncio.to_thread(function)
    return await result if isawaitable(result) else result


def _in_progress(name: KeyName, state: KeyState) -> InProgressError:
    seconds = retry_after(state)
    return InProgressError(
        f"the request with the idempotency key {name.key!r} is being executed, for "
        f"{max(0.0, state.age):.1f} s so far; ask again in {seconds:.0f} s",
        retry_after=seconds,
    )


def _checked(name: str, text: object) -> str:
    if not isinstance(text, str) or len(text) > MAX_KEY_LENGTH or not text.isprintable():
        raise InvalidValueError(
            f"{name} must be a text of at most {MAX_KEY_LENGTH} printable characters, got {text!r:.300}"
        )
    return text
