"""From JSON text back to the value."""

from __future__ import annotations

import re
from collections import Counter
from json import JSONDecoder
from math import isfinite
from typing import NoReturn

from redrive.errors import NotStorableError
from redrive.policy.codec.limits import (
    ESCAPE,
    ESCAPE_SPELLED_OUT,
    ESCAPED,
    LARGE_INTEGER,
    MAX_NUMBER_LENGTH,
    JsonValue,
    shown,
)


def decode(text: str) -> JsonValue:
    try:
        decoder = _DECODER if len(text) <= MAX_NUMBER_LENGTH else _GUARDED_DECODER
        value: JsonValue = decoder.decode(text)
        return _unescaped(value) if ESCAPE in text or ESCAPE_SPELLED_OUT in text else value
    except NotStorableError:
        raise
    except RecursionError:
        raise NotStorableError("the stored text is nested too deep to be read") from None
    except (TypeError, ValueError) as error:
        raise NotStorableError(f"the stored text is not JSON: {error}") from None


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise NotStorableError(f"the stored text has the key {shown(ascii(key))} twice; remove one of them")
    return entries


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise NotStorableError(f"the stored text has a number too large to be read: {shown(text)}")
    return number


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH:
        raise NotStorableError(f"the stored text has a number of {len(text):,} digits; keep it as text")
    return int(text)


def _constant(text: str) -> NoReturn:
    raise NotStorableError(f"the stored text has {text}, which is not JSON")


_DECODER = JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_constant)
_GUARDED_DECODER = JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_constant=_constant, parse_int=_integer
)


def _unescaped(value: JsonValue) -> JsonValue:
    if type(value) is str:
        large = re.fullmatch(LARGE_INTEGER, value)
        return int(large[1]) if large else _unescaped_text(value)
    if type(value) is list:
        return [_unescaped(item) for item in value]
    if type(value) is dict:
        return _object([(_unescaped_text(key), _unescaped(item)) for key, item in value.items()])
    return value


def _unescaped_text(text: str) -> str:
    return re.sub(ESCAPED, lambda match: chr(int(match[1], 16)), text)
