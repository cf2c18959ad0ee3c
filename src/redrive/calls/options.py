"""Options given by keyword. An unknown one is refused, with the known ones and the likeliest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from redrive.calls.controller import KeyOf
from redrive.calls.dependency import Dependency
from redrive.calls.reporter import Hook
from redrive.clock import Clock
from redrive.model.step import Effect
from redrive.policy.backoff import Backoff
from redrive.policy.classify import Classifier
from redrive.policy.retry import RetryPolicy
from redrive.words.suggestion import suggest

EffectWord = Literal["none", "idempotent", "unsafe"]


class CallOptions(TypedDict, total=False):
    """How calls are guarded, by hand or in a client: see Guard."""

    policy: RetryPolicy
    max_attempts: int | None
    backoff: Backoff | None
    timeout: float
    deadline: float | None
    longest_wait: float
    dependency: Dependency | str | None
    classifier: Classifier | None
    hooks: Iterable[Hook]


class GuardOptions(CallOptions, total=False):
    """What Guard takes besides the name of the operation."""

    effect: Effect | EffectWord
    idempotency_key: KeyOf | str | None
    fields: Mapping[str, Any] | None
    clock: Clock
    random: Callable[[], float]


def names_of(options: type) -> list[str]:
    """The names that a TypedDict of options knows."""
    return sorted(options.__optional_keys__)  # type: ignore[attr-defined]


def reject_unknown(options: Mapping[str, object], known: type) -> None:
    names = names_of(known)
    for name in options:
        if name not in names:
            raise TypeError(f"unknown option {name!r}; {suggest(name, names)}")
