"""Idempotency for any code: requests with the same idempotency key are executed once.

Redrive stores the hash of a request, never the request itself. It stores the outcome as JSON, encrypted if an
encryption key is configured, and deletes it after `ttl` seconds. The caller that executes a request holds the
key by a lease: after a crash, the key becomes free for the same request when the lease expires.
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
SWEEP_INTERVAL, MAX_SWEEP = 100, 200
"""Once every 100 executed requests, up to 200 expired keys are deleted, since no worker may be running."""


class StoredOutcome(NamedTuple):
    """The stored outcome of a request that was executed before."""

    value: JsonValue


class _CheckedRequest(NamedTuple):
    """A validated request."""

    name: KeyName
    request_hash: str
    lease_seconds: float
    ttl: float


class Idempotency:
    """Executes requests of one organization once per key."""

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
        """Return the stored result of this request, or else call `function` and return its result as JSON.

        KeyReusedError        the key was used with a different request
        InProgressError       another caller is executing the request, and `wait` seconds have passed
        RecordedFailureError  the request failed before with an error that the classifier does not retry
        LeaseLostError        another caller may have executed the request; repeat it to get its outcome

        A retryable error of the function, or a cancellation, releases the key.
        """
        if not callable(function):
            raise InvalidValueError(f"function must be callable without arguments, got {function!r:.200}")
        if classifier is not None:
            require_kind("classifier", classifier, Classifier)
        taken = await self.take(
            key, request, ttl=ttl, lease_seconds=lease_seconds, wait=wait, domain=domain, user=user
        )
        if isinstance(taken, StoredOutcome):
            return taken.value
        if iscoroutinefunction(function):
            return await self._execute(taken, function, classifier)
        # A thread can't be cancelled, so it holds the key until it finishes.
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
    ) -> StoredOutcome | Hold:
        """Return the stored outcome of the request, or else a Hold, which is the right to execute it.

        ttl            seconds until the stored outcome is deleted
        lease_seconds  seconds after which a crashed holder loses the key
        wait           seconds to wait while another caller executes the request
        domain, user   keys in different domains and of different users are independent

        Raises KeyReusedError, InProgressError and RecordedFailureError; see `run`.
        """
        checked = self._check(key, request, ttl, lease_seconds, domain, user)
        wait = require_seconds("wait", wait, 0.0, MAX_DELAY_SECONDS)
        clock, pause = self._services.clock, FIRST_PAUSE
        deadline = clock.monotonic() + wait
        while not isinstance(taken := await self._take_now(checked), StoredOutcome | Hold):
            left = deadline - clock.monotonic()
            if left <= 0.0:
                raise _in_progress(checked.name, taken)
            await clock.sleep(min(pause, left))
            pause = min(1.5 * pause, MAX_PAUSE_SECONDS)
        return taken

    def _check(
        self, key: object, request: object, ttl: Seconds, lease_seconds: Seconds, domain: object, user: object
    ) -> _CheckedRequest:
        ttl = require_seconds("ttl", ttl, 1.0, MAX_DELAY_SECONDS)
        lease_seconds = require_seconds("lease_seconds", lease_seconds, 1.0, MAX_LEASE_SECONDS)
        name = KeyName(self._org, _check_word("domain", domain), _check_word("user", user), checked_key(key))
        limits = self._services.limits
        digest = request_hash(to_json(request, limits=limits), limits=limits)
        return _CheckedRequest(name, digest, float(lease_seconds), float(ttl))

    async def _take_now(self, request: _CheckedRequest) -> StoredOutcome | Hold | KeyState:
        """Take the key or return its outcome. Return its state if another caller holds it."""
        while True:
            hold = await self._acquire(request)
            if hold is not None:
                return hold
            state = await self._keys.find(request.name)
            status = RequestStatus.FREE if state is None else request_status(state, request.request_hash)
            if state is None or status is RequestStatus.FREE:
                continue
            return (
                state if status is RequestStatus.IN_PROGRESS else self._outcome(request.name, state, status)
            )

    async def _acquire(self, request: _CheckedRequest) -> Hold | None:
        name, digest, lease_seconds, ttl = request
        token, since = self._services.ids.token(), self._services.clock.monotonic()
        action = partial(self._keys.acquire, name, digest, token, lease_seconds=lease_seconds, ttl=ttl)
        hold = Hold(self._services, self._keys, name, token, since, lease_seconds=lease_seconds, ttl=ttl)
        try:
            won = await self._services.persist(action)
        except BaseException:  # the write may have succeeded, so release the key
            await hold.release()
            raise
        if won:
            await self._sweep()
        return hold if won else None

    def _outcome(self, name: KeyName, state: KeyState, status: RequestStatus) -> StoredOutcome:
        """Return the stored outcome; raise KeyReusedError or RecordedFailureError."""
        if status is RequestStatus.REUSED:
            raise KeyReusedError(
                f"the idempotency key {name.key!r} was already used with a different request. Use a new key "
                f"for a new request; reuse a key only to repeat the same request"
            )
        if status is RequestStatus.FAILED:
            raise self._recorded_failure(name, state)
        return StoredOutcome(decode(self._services.encryption.decrypt(state.response or "null")))

    def _recorded_failure(self, name: KeyName, state: KeyState) -> RecordedFailureError:
        error: Any = decode(self._services.encryption.decrypt(state.error or "{}"))
        kind, message = error.get("type", "an error"), error.get("message", "")
        return RecordedFailureError(
            f"the request with the idempotency key {name.key!r} failed before with {kind}: {message}. "
            f"Redrive won't execute it again. Fix the cause and use a new key",
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
                await self._record_failure(hold, error, classifier or DEFAULT_CLASSIFIER)
                raise
            return await hold.complete(result)

    async def _record_failure(self, hold: Hold, error: Exception, classifier: Classifier) -> None:
        """Store a permanent failure. After any other failure, the hold releases the key."""
        now = self._services.clock.now()
        if isinstance(error, StoreUnavailableError | LeaseLostError) or classifier.classify(error).retryable:
            return
        evidence = evidence_of(
            error, classifier=classifier, redactor=self._services.redactor, step="idempotency", now=now
        )
        failure = evidence.failure
        with suppress(StoreError, LeaseLostError):  # the caller must see the original error
            await hold.fail({"type": failure.error_type, "message": failure.message})

    async def _sweep(self) -> None:
        if next(self._services.executed) % SWEEP_INTERVAL == 0:
            with suppress(StoreError):
                await self._keys.remove_expired(MAX_SWEEP)


async def _in_thread(function: Callable[[], Any]) -> Any:
    result = await asyncio.to_thread(function)
    return await result if isawaitable(result) else result


def _in_progress(name: KeyName, state: KeyState) -> InProgressError:
    seconds = retry_after(state)
    return InProgressError(
        f"the request with the idempotency key {name.key!r} has been in progress for "
        f"{max(0.0, state.age):.1f} s; repeat it in {seconds:.0f} s",
        retry_after=seconds,
    )


def _check_word(name: str, text: object) -> str:
    if not isinstance(text, str) or len(text) > MAX_KEY_LENGTH or not text.isprintable():
        raise InvalidValueError(
            f"{name} must be a string of at most {MAX_KEY_LENGTH} printable characters, got {text!r:.300}"
        )
    return text
