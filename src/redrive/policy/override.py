"""A retry policy as people write it for one replay: whole, or in short by the numbers of W3 (W9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redrive.errors import InvalidValueError
from redrive.policy.backoff import Backoff
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_whole
from redrive.policy.curve import Exponential
from redrive.policy.jitter import Proportional
from redrive.policy.retry import RetryPolicy
from redrive.policy.stored import policy_from_json

MAX_RETRIES = 1_000
NAME = "override"

_DEFAULTS: Mapping[str, float] = {
    "max_retries": 3,
    "base_delay_ms": 2_000,
    "factor": 2.0,
    "max_delay_ms": 120_000,
    "jitter_ratio": 0.25,
}
_MAX_MS = MAX_DELAY_SECONDS * 1000.0


def override_from_json(value: object) -> RetryPolicy:
    """Of the short form everything may be left out; the whole one is what `policy_to_json` gives."""
    if not isinstance(value, Mapping):
        raise InvalidValueError(
            f"a retry policy must be a JSON object, for example {{'max_retries': 5}}, got {value!r:.80}"
        )
    if "backoff" in value or "max_attempts" in value:
        return policy_from_json(value)
    unknown = sorted(str(name)[:80] for name in value.keys() - _DEFAULTS.keys())
    if unknown:
        raise InvalidValueError(
            f"a retry policy has no {', '.join(map(repr, unknown[:3]))}; it takes {', '.join(_DEFAULTS)}, or "
            f"all the fields of a stored policy"
        )
    return _short({**_DEFAULTS, **value})


def _short(given: Mapping[str, Any]) -> RetryPolicy:
    require_whole("max_retries", given["max_retries"], 0, MAX_RETRIES)
    for name in ("base_delay_ms", "max_delay_ms"):
        require(name, given[name], 0.0, _MAX_MS)
    require("factor", given["factor"], 1.0, 1000.0)
    require("jitter_ratio", given["jitter_ratio"], 0.0, 1.0)
    curve = Exponential(given["base_delay_ms"] / 1000.0, float(given["factor"]))
    backoff = Backoff(curve, given["max_delay_ms"] / 1000.0, Proportional(float(given["jitter_ratio"])))
    return RetryPolicy(name=NAME, max_attempts=given["max_retries"] + 1, backoff=backoff)
