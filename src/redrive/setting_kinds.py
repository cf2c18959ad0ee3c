"""Kinds of settings: what a value may be, and what that is in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from redrive.addresses import is_printable, words
from redrive.policy.bounds import require, require_whole

_KEY = re.compile(r"[A-Za-z0-9_-]{43}=")
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
        if not is_printable(value) or not self.shortest <= len(value.encode()) <= self.longest:
            raise ValueError
        return str(value)


@dataclass(frozen=True, slots=True)
class Keys:
    """Secrets, separated by commas, or a list of them. They are never shown."""

    bounds: str = "keys of 44 characters (32 bytes in URL-safe base64), separated by commas"

    def accept(self, value: Any) -> tuple[str, ...]:
        return words(value, _key)


def _key(word: str) -> str:
    if not _KEY.fullmatch(word):
        raise ValueError
    return word


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that is never shown."""

    bounds: str = "1 to 4096 bytes of printable text"

    def accept(self, value: Any) -> str:
        return Text(1, 4096).accept(value)


@dataclass(frozen=True, slots=True)
class Name:
    """A text of one form, such as that of a header."""

    bounds: str
    form: str

    def accept(self, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.form, value):
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Scopes:
    bounds: str = "scopes separated by blanks, openid among them"

    def accept(self, value: Any) -> str:
        scopes = dict.fromkeys(Text(1, 1000).accept(value).split())
        if "openid" not in scopes:
            raise ValueError
        return " ".join(scopes)


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
