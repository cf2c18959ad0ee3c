"""Conversion between retry policies and JSON, so that stored work keeps its policy.

A curve or a jitter is stored with its word and all its fields. Stored JSON is checked as strictly as a policy
in code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from redrive.errors import InvalidValueError
from redrive.model.failure import Category
from redrive.policy.backoff import Backoff
from redrive.policy.bounds import choice, require_kind
from redrive.policy.curve import CURVES, Custom
from redrive.policy.jitter import JITTERS
from redrive.policy.retry import RetryPolicy

if TYPE_CHECKING:
    from redrive.policy.codec import JsonValue

Words = Mapping[str, type[Any]]


def policy_to_json(policy: RetryPolicy) -> dict[str, JsonValue]:
    """Return the policy as plain JSON; reject a curve or a jitter that has no word."""
    by_category = policy.backoff_by_category.items()
    return {
        "name": policy.name,
        "max_attempts": policy.max_attempts,
        "backoff": _backoff_to_json(policy.backoff),
        "backoff_by_category": {
            _category(category).value: _backoff_to_json(backoff) for category, backoff in by_category
        },
        "also_retry": _categories_to_json(policy.also_retry),
        "never_retry": _categories_to_json(policy.never_retry),
        "max_rate_limit_waits": policy.max_rate_limit_waits,
        "max_holds": policy.max_holds,
        "ending": policy.ending.value,
    }


def policy_from_json(value: object) -> RetryPolicy:
    """Return the policy; reject any value that `policy_to_json` cannot have returned."""
    stored = dict(_entries("a stored policy", value, _names(RetryPolicy)))
    require_kind("name", stored["name"], str)
    stored["backoff"] = _backoff_from_json("backoff", stored["backoff"])
    by_category = _object("backoff_by_category", stored["backoff_by_category"]).items()
    stored["backoff_by_category"] = MappingProxyType(
        {_category(word): _backoff_from_json("backoff_by_category", backoff) for word, backoff in by_category}
    )
    for name in ("also_retry", "never_retry"):
        if not isinstance(stored[name], list):
            raise InvalidValueError(f"{name} must be a list of categories, got {stored[name]!r}")
        stored[name] = frozenset(map(_category, stored[name]))
    return RetryPolicy(**stored)


def _backoff_to_json(backoff: Backoff) -> dict[str, JsonValue]:
    require_kind("a backoff", backoff, Backoff)
    return {
        "curve": _word_to_json("curve", backoff.curve, CURVES),
        "cap": backoff.cap,
        "jitter": _word_to_json("jitter", backoff.jitter, JITTERS),
    }


def _backoff_from_json(name: str, value: object) -> Backoff:
    stored = _entries(name, value, ("curve", "cap", "jitter"))
    curve = _word_from_json("curve", stored["curve"], CURVES)
    return Backoff(curve, stored["cap"], _word_from_json("jitter", stored["jitter"], JITTERS))


def _word_to_json(noun: str, value: object, words: Words) -> dict[str, JsonValue]:
    for word, kind in words.items():
        if type(value) is kind:
            return {"kind": word, **{name: _field_to_json(getattr(value, name)) for name in _names(kind)}}
    what = "a Custom curve holds a function, which" if isinstance(value, Custom) else f"the {noun} {value!r}"
    known = ", ".join(kind.__name__ for kind in words.values())
    raise InvalidValueError(f"{what} cannot be stored; use one of {known}")


def _field_to_json(value: Any) -> JsonValue:
    return list(value) if isinstance(value, tuple) else value


def _word_from_json(noun: str, value: object, words: Words) -> Any:
    word = _object(noun, value).get("kind")
    if not isinstance(word, str) or word not in words:
        raise InvalidValueError(f"the kind of a {noun} must be one of {', '.join(words)}, got {word!r}")
    names = _names(words[word])
    stored = _entries(f"the {noun} {word!r}", value, ("kind", *names))
    return words[word](**{name: stored[name] for name in names})


def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _entries(what: str, value: object, names: Collection[str]) -> Mapping[str, Any]:
    """Return the entries of a stored object; reject it unless it has exactly these names."""
    stored = _object(what, value)
    unknown, missing = stored.keys() - set(names), set(names) - stored.keys()
    if unknown:
        known = ", ".join(names)
        raise InvalidValueError(f"{what} has unknown fields: {_listed(unknown)}; known are {known}")
    if missing:
        raise InvalidValueError(f"{what} lacks fields: {_listed(missing)}")
    return stored


def _object(what: str, value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidValueError(f"{what} must be a JSON object, got {value!r}")
    return value


def _listed(names: Iterable[object]) -> str:
    return ", ".join(sorted(map(repr, names)))


def _categories_to_json(categories: Iterable[Category]) -> list[JsonValue]:
    return [*sorted(category.value for category in categories)]


def _category(word: str) -> Category:
    return choice("category", word, Category)
