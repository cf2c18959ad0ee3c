"""Projectors: tasks with a name and a version, each of which processes the events of some types."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, TypeAlias

from redrive.errors import InvalidKeyError, InvalidValueError
from redrive.model.run import AfterFailure
from redrive.model.stream import Event
from redrive.policy.bounds import choice, require_list, require_whole
from redrive.policy.idempotency_key import idempotency_key

MAX_NAME_LENGTH = 40
MAX_VERSION = 1_000_000
MAX_VALUE_LENGTH = 100
NO_USER = "-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FIELDS = ("user", "source", "type")

OrderedBy: TypeAlias = "str | Callable[[Event], object] | None"


@dataclass(frozen=True, slots=True)
class Projector:
    """A projector of a stream.

    task        the name of its task
    types       patterns of event types, such as "score.*"; empty: every type
    ordered_by  "user", "source", "type", or a function of the event: events with the same value are projected
                one at a time, in the order of the stream; None: no order
    """

    name: str
    version: int
    task: str
    queue: str
    types: tuple[str, ...]
    ordered_by: OrderedBy
    after_failure: AfterFailure

    def wants(self, event: Event) -> bool:
        return not self.types or matches(event.type, self.types)

    def key(self, event: Event) -> str:
        """Return the idempotency key of the run that projects an event.

        An event without a user has "-" in its place. A user whose name is too long for a key is hashed.
        """
        user, rest = event.user or NO_USER, (event.id, ("project", self.name), f"v{self.version}")
        try:
            return idempotency_key("event", user, *rest)
        except InvalidKeyError:
            return idempotency_key("event", sha256(user.encode(errors="replace")).hexdigest(), *rest)

    def order_key(self, event: Event) -> str | None:
        """Return the order key of the run that projects an event; None without an order.

        None is a value like any other: the events without a user are ordered among themselves.
        """
        order = self.ordered_by
        if order is None:
            return None
        value = order(event) if callable(order) else getattr(event, order)
        text = "" if value is None else str(value)
        if len(text) > MAX_VALUE_LENGTH or not text.isprintable():
            text = "#" + sha256(text.encode(errors="replace")).hexdigest()
        return f"{self.task}:{text}"


def matches(event_type: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(event_type, pattern) for pattern in patterns)


def checked_projector_name(what: str, name: object) -> str:
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        raise InvalidValueError(
            f"{what} must start with a letter or digit, contain only letters, digits and . _ - and have at "
            f"most {MAX_NAME_LENGTH} characters, got {name!r:.100}"
        )
    return name


def checked_types(types: Collection[str] | None) -> tuple[str, ...]:
    if types is None:
        return ()
    require_list("types", types, "patterns such as 'score.*'")
    patterns = tuple(types)
    if not patterns or not all(map(_is_pattern, patterns)):
        raise InvalidValueError(
            f"types must be patterns such as ['score.*'], got {types!r:.100}; leave types out for every type"
        )
    return patterns


def _is_pattern(pattern: object) -> bool:
    return isinstance(pattern, str) and bool(pattern)


def checked_version(version: Any) -> int:
    require_whole("version", version, 1, MAX_VERSION)
    return int(version)


def checked_order(ordered_by: OrderedBy) -> OrderedBy:
    if ordered_by is None or callable(ordered_by) or ordered_by in _FIELDS:
        return ordered_by
    raise InvalidValueError(
        f"ordered_by must be 'user', 'source', 'type' or a function of the event, got {ordered_by!r:.100}; "
        f"for example ordered_by=lambda event: event.payload['account']"
    )


def checked_after_failure(value: AfterFailure | str) -> AfterFailure:
    return choice("after_failure", value, AfterFailure)
