"""Partial policies of calls: a dict that changes some values of the default policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from redrive.errors import InvalidValueError
from redrive.model.spelling import own_names
from redrive.policy.backoff import Backoff
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_kind, require_whole
from redrive.policy.curve import Exponential
from redrive.policy.jitter import NoJitter
from redrive.policy.presets import CALL
from redrive.policy.retry import RetryPolicy

DEFAULT_TIMEOUT = 10.0
"""Seconds for one attempt."""

NAMES = ("max_attempts", "base_delay_ms", "factor", "max_delay_ms", "jitter", "timeout_ms")
_MAX_MS = MAX_DELAY_SECONDS * 1000.0
_CURVE = CALL.backoff.curve
assert isinstance(_CURVE, Exponential)  # noqa: S101 — a partial policy names its base and factor
_BASE, _FACTOR = _CURVE.base, _CURVE.factor


def call_policy(partial: Mapping[str, Any]) -> tuple[RetryPolicy, float]:
    """Return the default policy of calls with these changes, and the timeout in seconds."""
    given = own_names(partial, NAMES)
    if unknown := [name for name in given if name not in NAMES]:
        raise InvalidValueError(f"a policy of calls has no {unknown[0]!r}; it has {', '.join(NAMES)}")
    for name in ("base_delay_ms", "max_delay_ms"):
        require(name, given.get(name, 0), 0.0, _MAX_MS)
    require("factor", given.get("factor", _FACTOR), 1.0, 1000.0)
    require_kind("jitter", given.get("jitter", True), bool)
    require("timeout_ms", given.get("timeout_ms", 1), 1.0, _MAX_MS)
    require_whole("max_attempts", given.get("max_attempts", 1), 1, 1_000_000)
    base = given["base_delay_ms"] / 1000.0 if "base_delay_ms" in given else _BASE
    # A base above the default cap raises the cap, unless a cap is given.
    cap = given["max_delay_ms"] / 1000.0 if "max_delay_ms" in given else max(base, CALL.backoff.cap)
    jitter = CALL.backoff.jitter if given.get("jitter", True) else NoJitter()
    policy = replace(
        CALL,
        name=f"{CALL.name} (changed)",
        max_attempts=given.get("max_attempts", CALL.max_attempts),
        backoff=Backoff(Exponential(base, given.get("factor", _FACTOR)), cap, jitter),
    )
    return policy, given["timeout_ms"] / 1000.0 if "timeout_ms" in given else DEFAULT_TIMEOUT
