"""Formats of settings: the values that types and bounds alone do not describe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

_FLAGS: dict[object, bool] = {
    "true": True, "yes": True, "on": True, True: True,
    "false": False, "no": False, "off": False, False: False,
}  # fmt: skip
"""The keys True and False also match 1 and 0."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of values.

    allowed    the format in words, with {low} and {high} for the bounds of the setting
    parse      returns the canonical form of a value, or raises ValueError
    sensitive  a value may contain a password: messages leave out rejected ones, and accepted ones are masked
    secret     a value is never shown
    """

    allowed: str
    parse: Callable[[Any], object]
    sensitive: bool = False
    secret: bool = False


def is_printable(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def parse_list(value: object, parse: Callable[[str], object]) -> tuple[object, ...]:
    """Parse each word of a list, or of a text with commas, and drop duplicates."""
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(map(is_printable, words)):
        raise ValueError
    return tuple(dict.fromkeys(parse(word.strip()) for word in words))


def text(min_bytes: int, max_bytes: int, *, secret: bool = False) -> Format:
    """Printable text of limited length in bytes, as databases and files count it."""

    def parse(value: Any) -> object:
        if not is_printable(value) or not min_bytes <= len(value.encode()) <= max_bytes:
            raise ValueError
        return value

    allowed = f"{min_bytes} to {max_bytes} bytes of printable text"
    return Format(allowed, parse, sensitive=secret, secret=secret)


def matching(pattern: str, allowed: str, *, sensitive: bool = False) -> Format:
    """Printable text that matches the pattern as a whole."""

    def parse(value: Any) -> object:
        if not is_printable(value) or not re.fullmatch(pattern, value):
            raise ValueError
        return value

    return Format(allowed, parse, sensitive)


def one_of(words: Iterable[str]) -> Format:
    known = {str(word): str(word) for word in words}

    def parse(value: Any) -> object:
        word = value.lower() if isinstance(value, str) else None
        if word not in known:
            raise ValueError
        return word

    return Format(f"one of {', '.join(known)}", parse)


def _parse_flag(value: Any) -> object:
    word = value.lower() if isinstance(value, str) else value
    try:
        return _FLAGS[word]
    except (KeyError, TypeError):
        raise ValueError from None


def _parse_share(value: Any) -> object:
    """Read "50%" and 50 as 0.5; the bounds of the setting apply to the share."""
    if isinstance(value, str) and value.endswith("%"):
        return float(value[:-1]) / 100.0
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 1:
        return value / 100.0
    return value


def _parse_scopes(value: Any) -> object:
    scopes = dict.fromkeys(str(_SCOPES_TEXT.parse(value)).split())
    if "openid" not in scopes:
        raise ValueError
    return " ".join(scopes)


_SCOPES_TEXT = text(1, 1000)
_KEY = matching("[A-Za-z0-9_-]{43}=", "keys of 44 characters (32 bytes in URL-safe base64)")

FLAG = Format("true or false", _parse_flag)
SHARE = Format(
    "a share from {low:g} to {high:g}, or a percentage from {low:.1%} to {high:.0%} (50% or 50)", _parse_share
)
SCOPES = Format("scopes separated by spaces, including openid", _parse_scopes)
SECRET = text(1, 4096, secret=True)
ENCRYPTION_KEYS = Format(
    f"{_KEY.allowed}, separated by commas",
    lambda value: parse_list(value, _KEY.parse),
    sensitive=True,
    secret=True,
)
HEADER = matching("[A-Za-z][A-Za-z0-9-]{0,99}", "the name of a header such as X-Forwarded-User")
CLAIM = matching("[!-~]{1,200}", "the name of a claim such as email")
