"""A setting: its name, what is allowed, and how it is read from text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from redrive.errors import InvalidValueError
from redrive.policy.bounds import require, require_whole

PREFIX = "REDRIVE_"

ALIASES = frozenset(
    {
        "CIRCUIT_COOLDOWN_MS",
        "CIRCUIT_FAIL_THRESHOLD",
        "CIRCUIT_WINDOW",
        "DATABASE_URL",
        "GATEWAY_TIMEOUT_MS",
        "RETRY_BASE_DELAY_MS",
        "RETRY_JITTER_MAX_MS",
        "RETRY_MAX_ATTEMPTS",
        "WORKER_CONCURRENCY",
        "WORKER_LEASE_TTL_SEC",
    }
)
"""The variables that are read without the prefix too. Others, such as SCHEMA, may be meant for anybody."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")
_KEY = re.compile(r"[A-Za-z0-9_-]{43}=")
_PASSWORD = re.compile(r"(://[^:]*:).*@")
_LONGEST_SHOWN = 100
_TRUE: tuple[object, ...] = (True, "true", "yes", "on")
_FALSE: tuple[object, ...] = (False, "false", "no", "off")
"""1 and 0 are equal to True and False, so they are in it too."""


class Kind(Protocol):
    """What a value may be."""

    @property
    def bounds(self) -> str: ...

    def accept(self, value: Any) -> object:
        """The value in its usual form; ValueError if it is not allowed."""


@dataclass(frozen=True, slots=True)
class Whole:
    low: int
    high: int

    @property
    def bounds(self) -> str:
        return f"a whole number from {self.low:,} to {self.high:,}"

    def accept(self, value: Any) -> int:
        require_whole("it", value, self.low, self.high)
        return int(value)


@dataclass(frozen=True, slots=True)
class Number:
    low: float
    high: float

    @property
    def bounds(self) -> str:
        return f"a number from {self.low:,g} to {self.high:,g}"

    def accept(self, value: Any) -> float:
        require("it", value, self.low, self.high)
        return float(value)


@dataclass(frozen=True, slots=True)
class Share:
    """0.5, 50 and "50%" are the same: what is above 1 is read as a percentage."""

    low: float

    @property
    def bounds(self) -> str:
        return f"a share from {self.low:g} to 1, or a percentage from {self.low * 100:g}% to 100% (50% or 50)"

    def accept(self, value: Any) -> float:
        if isinstance(value, str) and value.endswith("%"):
            return Number(self.low, 1.0).accept(float(value[:-1]) / 100.0)
        number = Number(self.low, 100.0).accept(value)
        return number / 100.0 if number > 1.0 else number


@dataclass(frozen=True, slots=True)
class Text:
    shortest: int
    longest: int

    @property
    def bounds(self) -> str:
        return f"{self.shortest} to {self.longest} bytes of printable text"

    def accept(self, value: Any) -> str:
        if not _is_printable(value) or not self.shortest <= len(value.encode()) <= self.longest:
            raise ValueError
        return str(value)


@dataclass(frozen=True, slots=True)
class Address:
    bounds: str = "an address such as sqlite:///work.db or postgresql://user:password@host/database"

    def accept(self, value: Any) -> str:
        if not _is_printable(value) or not _ADDRESS.fullmatch(value):
            raise ValueError
        return str(value)


@dataclass(frozen=True, slots=True)
class Keys:
    """Secrets, separated by commas, or a list of them. They are never shown."""

    bounds: str = "keys of 44 characters (32 bytes in URL-safe base64), separated by commas"

    def accept(self, value: Any) -> tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise ValueError
        keys = tuple(dict.fromkeys(word.strip() for word in words))
        if not keys or not all(_KEY.fullmatch(key) for key in keys):
            raise ValueError
        return keys


@dataclass(frozen=True, slots=True)
class Flag:
    bounds: str = "true or false"

    def accept(self, value: Any) -> bool:
        word = value.lower() if isinstance(value, str) else value
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise ValueError


@dataclass(frozen=True, slots=True)
class Choice:
    words: tuple[str, ...]

    @property
    def bounds(self) -> str:
        return f"one of {', '.join(self.words)}"

    def accept(self, value: Any) -> str:
        if not isinstance(value, str) or value.lower() not in self.words:
            raise ValueError
        return str(value.lower())


def _is_printable(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What there is to know about one setting.

    without  the word that stands for None in a file and in the environment; empty: None is not allowed
    """

    name: str
    default: Any
    kind: Kind
    meaning: str
    without: str

    @property
    def environment(self) -> str:
        return f"{PREFIX}{self.name.upper()}"

    @property
    def alias(self) -> str | None:
        """Another variable, which counts when the first one is not set."""
        return self.name.upper() if self.name.upper() in ALIASES else None

    @property
    def bounds(self) -> str:
        return f'{self.kind.bounds}, or "{self.without}"' if self.without else self.kind.bounds

    def text_in(self, environment: Mapping[str, str]) -> tuple[str, str] | None:
        """The variable that holds it, and what that says."""
        for variable in filter(None, (self.environment, self.alias)):
            if text := environment.get(variable, "").strip():
                return variable, text
        return None

    def parsed(self, text: str) -> object:
        """What a variable says; what is no number stays as it is."""
        return text if isinstance(self.kind, Text | Address | Keys) else _number(text)

    def checked(self, value: object, where: str) -> Any:
        if self.without and (value is None or (isinstance(value, str) and value.lower() == self.without)):
            return None
        try:
            return self.kind.accept(value)
        except ValueError:
            raise InvalidValueError(f"{where} must be {self.bounds}{self._got(value)}") from None

    def shown(self, value: object) -> str:
        if isinstance(self.kind, Keys):
            return "None" if value is None else "***"
        if not isinstance(self.kind, Address):
            return repr(value)
        return _redacted(_PASSWORD.sub(r"\1***@", str(value)))

    def _got(self, value: object) -> str:
        # An address that is wrong is not known well enough to find the password in it.
        return "" if isinstance(self.kind, Address | Keys) else f", got {_redacted(value)[:_LONGEST_SHOWN]}"


def _number(text: str) -> object:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _redacted(value: object) -> str:
    from redrive.policy.redact import DEFAULT_REDACTOR  # compiles its patterns, so only when needed

    return DEFAULT_REDACTOR.text(repr(value))
