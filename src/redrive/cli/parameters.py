"""Types of option values: durations, moments, fractions."""

from __future__ import annotations

import re
import time
from math import inf

import click

from redrive.errors import InvalidValueError
from redrive.words.time import MAX_SECONDS, duration, machine, parse_duration

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class DurationParam(click.ParamType[float]):
    """A duration in seconds, such as 30m or 90d, within bounds. `unit` is that of a bare number."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = inf, *, unit: str = "") -> None:
        self._least = least
        self._most = most
        self._unit = unit

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            seconds = 0.0 if text == "0" else parse_duration(text, unit=self._unit)
        except InvalidValueError as error:
            self.fail(str(error), param, ctx)
        if not self._least <= seconds <= self._most:
            least = f"at least {duration(self._least)}"
            bounds = least if self._most == inf else f"{least} and at most {duration(self._most)}"
            self.fail(f"{text!r} is not {bounds}", param, ctx)
        return seconds


DURATION = DurationParam(most=36_500 * 86_400.0)
"""Calendars still know what day it is so far from now."""
SECONDS = DurationParam(most=MAX_SECONDS, unit="s")


class MomentParam(click.ParamType[str]):
    """A day, a time as in RFC 3339, or how long ago."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if _DAY.match(text):
            return text if len(text) > len("2030-01-31") else f"{text}T00:00:00Z"
        return machine(time.time() - DURATION.convert(text, param, ctx))


class FractionParam(click.ParamType[float]):
    """A part of a whole: 20% or 0.2."""

    name = "part"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            found = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            found = -1.0
        if not 0.0 <= found <= 1.0:
            self.fail(f"{value!r} is no part of a whole, such as 20% or 0.2", param, ctx)
        return found
