"""Changes of a retry policy: new values for some fields, and the override for one replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

from redrive.duration import Seconds, to_seconds
from redrive.errors import InvalidFieldError, InvalidValueError
from redrive.model.failure import Category
from redrive.model.spelling import own_names
from redrive.policy.backoff import Backoff
from redrive.policy.bounds import MAX_DELAY_SECONDS, choice, require, require_seconds, require_whole
from redrive.policy.curve import CURVES, Curve, Exponential
from redrive.policy.jitter import Proportional, parse_jitter
from redrive.policy.policy_json import policy_from_json
from redrive.policy.presets import preset
from redrive.policy.retry import RetryPolicy

MAX_ATTEMPTS = 1_000
MAX_RATE_LIMIT_WAITS = 1_000
MAX_RETRIES = 1_000
_INCREMENT = {"step": "increment"}
"""The name here for a curve's `step`: in an alteration, a step would be a step of a workflow."""

OVERRIDE_NAME = "override"

_DEFAULTS: Mapping[str, float] = {
    "max_retries": 3,
    "base_delay_ms": 2_000,
    "factor": 2.0,
    "max_delay_ms": 120_000,
    "jitter_ratio": 0.25,
}
_MAX_MS = MAX_DELAY_SECONDS * 1000.0


class Alteration(NamedTuple):
    """New values for fields of a policy; None or empty: unchanged. `preset` names a policy to start from."""

    preset: str | None = None
    attempts: int | None = None
    curve: str | None = None
    base: Seconds | None = None
    factor: float | None = None
    increment: Seconds | None = None
    cap: Seconds | None = None
    jitter: str | None = None
    also_retry: tuple[str, ...] = ()
    never_retry: tuple[str, ...] = ()
    rate_limit_waits: int | None = None

    @property
    def changes_nothing(self) -> bool:
        return self == Alteration()

    def of(self, policy: RetryPolicy) -> RetryPolicy:
        """Return the changed policy; reject values out of bounds and fields that the curve does not have."""
        self.check()
        begun = policy if self.preset is None else preset(self.preset)
        also, never = _categories(self.also_retry), _categories(self.never_retry)
        return replace(
            begun,
            max_attempts=begun.max_attempts if self.attempts is None else self.attempts,
            backoff=self._backoff(begun.backoff),
            also_retry=(begun.also_retry | also) - never,
            never_retry=(begun.never_retry | never) - also,
            max_rate_limit_waits=(
                begun.max_rate_limit_waits if self.rate_limit_waits is None else self.rate_limit_waits
            ),
        )

    def check(self) -> None:
        """Check all values that do not depend on the policy to change."""
        if self.preset is not None:
            preset(self.preset)
        if self.jitter is not None:
            parse_jitter(self.jitter)
        _categories((*self.also_retry, *self.never_retry))
        if self.attempts is not None:
            require_whole("attempts", self.attempts, 1, MAX_ATTEMPTS)
        if self.rate_limit_waits is not None:
            require_whole("rate_limit_waits", self.rate_limit_waits, 0, MAX_RATE_LIMIT_WAITS)
        if self.factor is not None:
            require("factor", self.factor, 1.0, 1000.0)
        for name, duration in (("base", self.base), ("increment", self.increment), ("cap", self.cap)):
            if duration is not None:
                require_seconds(name, duration, 0.0, MAX_DELAY_SECONDS)

    def _backoff(self, backoff: Backoff) -> Backoff:
        curve = self._curve(backoff.curve)
        # A base above the old cap raises the cap, unless a cap is given.
        cap = max(backoff.cap, to_seconds(self.base or 0.0)) if self.cap is None else self.cap
        return Backoff(curve, cap, backoff.jitter if self.jitter is None else parse_jitter(self.jitter))

    def _curve(self, curve: Curve) -> Curve:
        given = {"base": self.base, "factor": self.factor, "step": self.increment}
        given = {name: value for name, value in given.items() if value is not None}
        if not given and self.curve is None:
            return curve
        kind: type[Any] = type(curve) if self.curve is None else CURVES[self.curve]
        names = tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
        for name in given:
            if name not in names:
                word = getattr(kind, "word", "custom")
                raise InvalidFieldError(
                    _INCREMENT.get(name, name), f"does not apply to the {word} curve; choose another curve"
                )
        kept = {name: getattr(curve, name) for name in names if hasattr(curve, name)}
        values = {"factor": 2.0, **kept, **given}
        if missing := [name for name in names if name not in values]:
            field = _INCREMENT.get(missing[0], missing[0])
            raise InvalidFieldError(field, f"is missing; the {self.curve} curve needs it")
        changed: Curve = kind(**{name: values[name] for name in names})
        return changed


def _categories(words: Iterable[str]) -> frozenset[Category]:
    return frozenset(choice("category", word, Category) for word in words)


def override_from_json(value: object) -> RetryPolicy:
    """Read a policy: all fields of `policy_to_json`, or any of the short form in `_DEFAULTS`."""
    if not isinstance(value, Mapping):
        raise InvalidValueError(
            f"a retry policy must be a JSON object, for example {{'max_retries': 5}}, got {value!r:.80}"
        )
    value = own_names(value, {*_DEFAULTS, *(field.name for field in fields(RetryPolicy))})
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
    return RetryPolicy(name=OVERRIDE_NAME, max_attempts=given["max_retries"] + 1, backoff=backoff)
