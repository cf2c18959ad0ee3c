"""Facts: a code for programs and the values that belong to it. `redrive.words.fact` renders them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import msgspec

_NO_FIELDS: Mapping[str, Any] = MappingProxyType({})
SENTENCE = "sentence"
"""The code of a text that an earlier version stored instead of a fact."""


class Fact(NamedTuple):
    """Something that is true of work or of a request. The fields are JSON values."""

    code: str
    fields: Mapping[str, Any] = _NO_FIELDS

    def encode(self) -> str:
        return msgspec.json.encode({"code": self.code, **self.fields}).decode()


StoredFact = Annotated[Fact, "text"]
"""Read from JSON; a row that is to be written holds the text."""


class CountedFact(NamedTuple):
    """A fact that holds for `items` items."""

    fact: Fact
    items: int


def fact(code: str, **fields: Any) -> Fact:
    return Fact(code, fields)


def read_fact(text: str) -> Fact:
    """Read a stored fact. Any other text is a sentence of an earlier version, which stays as it is."""
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        fields = None
    return from_json(fields) if isinstance(fields, dict) and "code" in fields else fact(SENTENCE, text=text)


def from_json(value: Mapping[str, Any]) -> Fact:
    fields = dict(value)
    return Fact(str(fields.pop("code")), fields)
