"""Changes of a retry policy: new values for some fields, and the override for one replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from redrive.duration import Seconds, to_seconds
from redrive.errors import InvalidFieldError, InvalidValueError
from redrive.model.failure import Category
from redrive.model.spelling import own_names
from redrive.policy.backoff import Backoff
from redrive.policy.bounds import MAX_DELAY_SECONDS, choice, require, require_seconds, require_whole
from redrive.policy.curve import CURVES, Curve, Exponential, Immediate, Linear, Never, Table
from redrive.policy.jitter import Proportional, parse_jitter
from redrive.policy.policy_json import policy_from_json, policy_to_json
from redrive.policy.presets import STEP, preset
from redrive.policy.retry import RetryPolicy

if TYPE_CHECKING:
    from redrive.policy.codec import JsonValue

MAX_ATTEMPTS = 1_000
MAX_RATE_LIMIT_WAITS = 1_000
MAX_RETRIES = 1_000
_INCREMENT = {"step": "increment"}
"""The name here for a curve's `step`: in an alteration, a step would be a step of a workflow."""

OVERRIDE_NAME = "override"

_MAX_MS = MAX_DELAY_SECONDS * 1000.0
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "base_delay_ms": (0.0, _MAX_MS),
    "factor": (1.0, 1000.0),
    "max_delay_ms": (0.0, _MAX_MS),
    "jitter_ratio": (0.0, 1.0),
}
SHORT_FIELDS = ("max_retries", *_BOUNDS)
"""The fields of the short form of a policy (W3)."""


class Alteration(NamedTuple):
    """New values for fields of a policy; None or empty: unchanged. `preset` names a policy to start from."""

    preset: str | None = None
    attempts: int | None = None
    curve: str | None = None
    base: Seconds | None = None
    factor: float | None = None
    increment: Seconds | None = None
    cap: Seconds | None = None
    delays: tuple[Seconds, ...] = ()
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
        # A wait above the old cap raises the cap, unless a cap is given.
        waits = map(to_seconds, (self.base or 0.0, *self.delays))
        cap = max(backoff.cap, *waits) if self.cap is None else self.cap
        return Backoff(curve, cap, backoff.jitter if self.jitter is None else parse_jitter(self.jitter))

    def _curve(self, curve: Curve) -> Curve:
        given = {"base": self.base, "factor": self.factor, "step": self.increment, "delays": self.delays}
        given = {name: value for name, value in given.items() if value not in (None, ())}
        if not given and self.curve is None:
            return curve
        kind: type[Any] = type(curve) if self.curve is None else CURVES[self.curve]
        kind = Table if self.delays and self.curve is None else kind
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


class PolicyOverride(NamedTuple):
    """The override of a step's retry policy for one replay, as it was given.

    whole    a complete policy, which replaces that of the step
    changes  new values of some fields of the short form; the step's policy keeps the other fields
    """

    whole: RetryPolicy | None
    changes: Mapping[str, Any]

    @classmethod
    def read(cls, value: object) -> PolicyOverride:
        """Read a RetryPolicy, all fields of `policy_to_json`, or some fields of the short form."""
        if isinstance(value, RetryPolicy):
            policy_to_json(value)  # rejects a policy that cannot be stored
            return cls(value, {})
        if not isinstance(value, Mapping):
            raise InvalidValueError(
                f"a retry policy must be a JSON object, for example {{'max_retries': 5}}, got {value!r:.80}"
            )
        value = own_names(value, {*SHORT_FIELDS, *(field.name for field in fields(RetryPolicy))})
        if "backoff" in value or "max_attempts" in value:
            return cls(policy_from_json(value), {})
        _check_changes(value)
        return cls(None, dict(value))

    def to_json(self) -> dict[str, JsonValue]:
        return dict(self.changes) if self.whole is None else policy_to_json(self.whole)

    def of(self, policy: RetryPolicy) -> RetryPolicy:
        """Return the policy of the replay: that of the step with the changes, or the whole policy."""
        if self.whole is not None:
            return self.whole
        retries = self.changes.get("max_retries", policy.max_retries)
        by_category = policy.backoff_by_category.items()
        return replace(
            policy,
            name=OVERRIDE_NAME,
            max_attempts=retries + 1,
            backoff=self._backoff(policy.backoff),
            backoff_by_category={category: self._backoff(backoff) for category, backoff in by_category},
        )

    def _backoff(self, backoff: Backoff) -> Backoff:
        """Return a backoff with the changes. A curve that never retries gets the default waits."""
        if isinstance(backoff.curve, Never):
            backoff = STEP.backoff
        changes = self.changes
        cap, jitter, ratio = changes.get("max_delay_ms"), backoff.jitter, changes.get("jitter_ratio")
        curve = self._curve(backoff.curve)
        # A base above the old cap raises the cap, unless a cap is given.
        highest = max(backoff.cap, changes.get("base_delay_ms", 0.0) / 1000.0)
        return Backoff(
            curve,
            highest if cap is None else cap / 1000.0,
            jitter if ratio is None else Proportional(float(ratio)),
        )

    def _curve(self, curve: Curve) -> Curve:
        base, factor = self.changes.get("base_delay_ms"), self.changes.get("factor")
        if base is None and factor is None:
            return curve
        known = Exponential(2.0) if isinstance(curve, Immediate) else curve
        seconds = getattr(known, "base", 2.0) if base is None else base / 1000.0
        if factor is None and isinstance(known, Linear):
            return Linear(seconds, known.step)
        return Exponential(seconds, float(getattr(known, "factor", 2.0) if factor is None else factor))


def _check_changes(given: Mapping[Any, Any]) -> None:
    unknown = sorted(str(name)[:80] for name in given.keys() - set(SHORT_FIELDS))
    if unknown:
        raise InvalidValueError(
            f"a retry policy has no {', '.join(map(repr, unknown[:3]))}; it takes {', '.join(SHORT_FIELDS)}, "
            f"or all the fields of a stored policy"
        )
    if "max_retries" in given:
        require_whole("max_retries", given["max_retries"], 0, MAX_RETRIES)
    for name, (least, most) in _BOUNDS.items():
        if name in given:
            require(name, given[name], least, most)
