"""Templates: named patterns of failures, each with a policy, tags, an owner and a runbook."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError
from redrive.model.failure import Category
from redrive.policy.automatic_redrive import (
    CUSTOM_PREFIX,
    Function,
    RedriveChoice,
    check_choice,
    check_max_redrives,
)
from redrive.policy.bounds import require_kind, require_whole
from redrive.policy.triage import Triage, triage

MAX_TEXT_LENGTH = 500
MAX_TAGS = 50


class Circumstances(NamedTuple):
    """The facts about a failed step that templates match."""

    category: Category
    task: str
    workflow: str
    queue: str
    error_type: str
    http_status: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Template:
    """A template. A matcher is one value, or several of which one must match; all set matchers must match.

    category      a category, or a coarse kind (redrive.policy.triage): transient, network, resource,
                  permission, validation, permanent. A word that is both means the kind: "network" includes
                  timeouts; Category.NETWORK is the category alone
    redrive       the redrive policy of matching dead letters: see redrive.policy.automatic_redrive; or a
                  function
    max_redrives  the maximum; by default, the maximum of the policy
    owner         the assignee
    """

    name: str
    _: KW_ONLY
    category: Category | Triage | str | Collection[Category | Triage | str] = ()
    task: str | Collection[str] = ()
    workflow: str | Collection[str] = ()
    queue: str | Collection[str] = ()
    error_type: str | Collection[str] = ()
    http_status: int | Collection[int] = ()
    message_contains: str | Collection[str] = ()
    redrive: RedriveChoice | Function | None = None
    max_redrives: int | None = None
    tags: Collection[str] = ()
    owner: str | None = None
    runbook: str | None = None

    def __post_init__(self) -> None:
        _require_text("the name of a template", self.name)
        for matcher, check in _MATCHERS.items():
            values = tuple(check(matcher, value) for value in _several(getattr(self, matcher)))
            object.__setattr__(self, matcher, values)
        object.__setattr__(self, "category", tuple(chain.from_iterable(self.category)))
        if not any(getattr(self, matcher) for matcher in _MATCHERS):
            raise InvalidValueError(
                f"the template {self.name!r} has no matcher; set at least one of {', '.join(_MATCHERS)}"
            )
        self._check_handling()

    @property
    def function_name(self) -> str:
        """The name of the redrive function, if the template has one."""
        return f"template {self.name}"

    @property
    def redrive_choice(self) -> RedriveChoice | None:
        """The redrive policy of matching dead letters, as stored."""
        return CUSTOM_PREFIX + self.function_name if callable(self.redrive) else self.redrive

    def _check_handling(self) -> None:
        if self.redrive_choice is not None:
            check_choice(self.redrive_choice)
        check_max_redrives(self.max_redrives)
        object.__setattr__(self, "tags", tuple(_require_text("a tag", tag) for tag in _several(self.tags)))
        if len(self.tags) > MAX_TAGS:
            raise InvalidValueError(f"a template has at most {MAX_TAGS} tags, got {len(self.tags)}")
        for name in ("owner", "runbook"):
            if getattr(self, name) is not None:
                _require_text(name, getattr(self, name))

    def matches(self, what: Circumstances) -> bool:
        return all(_fits(matcher, getattr(self, matcher), what) for matcher in _MATCHERS)


def template_for(templates: Iterable[Template], what: Circumstances) -> Template | None:
    """Return the first template that matches."""
    return next((template for template in templates if template.matches(what)), None)


def _fits(matcher: str, wanted: tuple[Any, ...], what: Circumstances) -> bool:
    if not wanted:
        return True
    if matcher == "message_contains":
        message = what.message.lower()
        return any(part.lower() in message for part in wanted)
    return getattr(what, matcher) in wanted


def _several(value: Any) -> tuple[Any, ...]:
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(value)
    return (value,)


def _require_text(name: str, value: object) -> str:
    require_kind(name, value, str)
    text = str(value)
    if not 1 <= len(text) <= MAX_TEXT_LENGTH or not text.isprintable():
        raise InvalidValueError(
            f"{name} must be 1 to {MAX_TEXT_LENGTH} printable characters, got {text[:MAX_TEXT_LENGTH]!r}"
        )
    return text


def _require_category(name: str, value: object) -> tuple[Category, ...]:
    """Return the categories of a category or a coarse kind."""
    if isinstance(value, Category):
        return (value,)
    word = str(value).lower()
    if word in list(Triage):
        return tuple(category for category in Category if triage(category) == word)
    if word in list(Category):
        return (Category(word),)
    words = ", ".join(map(repr, dict.fromkeys([*map(str, Triage), *map(str, Category)])))
    raise InvalidValueError(f"{name} must be one of {words}, got {value!r}")


def _require_status(name: str, value: object) -> object:
    require_whole(name, value, 100, 599)
    return value


_MATCHERS: Mapping[str, Any] = MappingProxyType(
    {
        "category": _require_category,
        "task": _require_text,
        "workflow": _require_text,
        "queue": _require_text,
        "error_type": _require_text,
        "http_status": _require_status,
        "message_contains": _require_text,
    }
)
