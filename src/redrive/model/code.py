"""Declared codes: each names a fact, the group that it belongs to, and its fields."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class DeclaredCode(StrEnum):
    """A code with its group and the names of its fields. Each subclass declares all codes of its kind."""

    group: str
    fields: tuple[str, ...]

    def __new__(cls, code: str, group: str = "", fields: str = "") -> Self:
        made = str.__new__(cls, code)
        made._value_ = code
        made.group, made.fields = group, tuple(fields.split())
        return made
