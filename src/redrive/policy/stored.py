"""A retry policy as JSON and back, so that stored work keeps the policy it was given.

A curve or a jitter is stored under its word in a table, with all its fields. What is read is checked as
strictly as what a person writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from redrive.errors import InvalidValueError
from redrive.model.failure import Category
from redrive.policy.backoff import Backoff
from redrive.policy.bounds import choice, require_kind
from redrive.policy.curve import CURVES, Custom
from redrive.policy.jitter import JITTERS
from redrive.policy.retry import Ending, RetryPolicy

if TYPE_CHECKING:
    from redrive.policy.codec import JsonValue

Words = Mapping[str, type[Any]]


def policy_to_json(policy: RetryPolicy) -> dict[str, JsonValue]:
    """The policy as plain JSON; refuses one with a curve or a jitter that has no word."""
    return {name: write(getattr(policy, name)) for name, (write, _) in _FIELDS.items()}


def policy_from_json(value: object) -> RetryPolicy:
    """An equal policy; refuses what `policy_to_json` did not give."""
    stored = _entries("a stored policy", value, _FIELDS)
    return RetryPolicy(**{name: read(name, stored[name]) for name, (_, read) in _FIELDS.items()})


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
            return {"kind": word, **{name: getattr(value, name) for name in _names(kind)}}
    what = "a Custom curve holds a function, which" if isinstance(value, Custom) else f"the {noun} {value!r}"
    known = ", ".join(kind.__name__ for kind in words.values())
    raise InvalidValueError(f"{what} cannot be stored; use one of {known}")


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
    """The entries of a stored object, which has exactly these names."""
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


def _by_category_to_json(backoffs: Mapping[Category, Backoff]) -> dict[str, JsonValue]:
    return {_category(each).value: _backoff_to_json(backoff) for each, backoff in backoffs.items()}


def _by_category_from_json(name: str, value: object) -> Mapping[Category, Backoff]:
    stored = _object(name, value).items()
    return MappingProxyType({_category(word): _backoff_from_json(name, each) for word, each in stored})


def _categories_to_json(categories: Iterable[Category]) -> list[JsonValue]:
    return [*sorted(_category(each).value for each in categories)]


def _categories_from_json(name: str, value: object) -> frozenset[Category]:
    if not isinstance(value, list):
        raise InvalidValueError(f"{name} must be a list of categories, got {value!r}")
    return frozenset(map(_category, value))


def _category(word: str) -> Category:
    return choice("category", word, Category)


def _text(name: str, value: object) -> object:
    require_kind(name, value, str)
    return value


def _as_it_is(value: Any) -> Any:
    return value


def _checked_by_the_policy(name: str, value: object) -> object:
    return value


def _ending_to_json(ending: Ending) -> str:
    return ending.value


_NUMBER = (_as_it_is, _checked_by_the_policy)
_CATEGORIES = (_categories_to_json, _categories_from_json)

_FIELDS: Mapping[str, tuple[Callable[[Any], Any], Callable[[str, object], Any]]] = MappingProxyType(
    {
        "name": (_as_it_is, _text),
        "max_attempts": _NUMBER,
        "backoff": (_backoff_to_json, _backoff_from_json),
        "backoff_by_category": (_by_category_to_json, _by_category_from_json),
        "also_retry": _CATEGORIES,
        "never_retry": _CATEGORIES,
        "max_rate_limit_waits": _NUMBER,
        "max_holds": _NUMBER,
        "ending": (_ending_to_json, _checked_by_the_policy),
    }
)
