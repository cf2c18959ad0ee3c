"""Types of option values: lengths of time, moments, fractions."""

from __future__ import annotations

import re
import time
from math import inf

import click

from redrive.words.moment import machine

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MAX_DURATION_SECONDS = 36_500 * 86_400.0
"""Calendars still know what day it is so far from now."""
_DURATION = re.compile(r"(\d{1,9})([smhdw])")
_SECONDS = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class DurationParam(click.ParamType[float]):
    """A length of time such as 30m or 90d, in seconds; `zero` allows 0 without a unit."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = inf, *, zero: bool = False) -> None:
        self._least = least
        self._most = most
        self._zero = zero

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip().lower()
        if self._zero and text == "0":
            return 0.0
        found = _DURATION.fullmatch(text)
        if found is None:
            self.fail(
                f"{value!r} is no length of time: a number and one of s, m, h, d, w, such as 90d", param, ctx
            )
        seconds = float(found[1]) * UNITS[found[2]]
        if not self._least <= seconds <= self._most:
            least = f"at least {_spell(self._least)}"
            bounds = least if self._most == inf else f"{least} and at most {_spell(self._most)}"
            self.fail(f"{value!r} is not {bounds}", param, ctx)
        return seconds


DURATION = DurationParam(most=MAX_DURATION_SECONDS)


class MomentParam(click.ParamType[str]):
    """A day, a time as in RFC 3339, or how long ago."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if _DURATION.fullmatch(text.lower()):
            return machine(time.time() - DURATION.convert(text, param, ctx))
        return f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text


class SecondsParam(click.ParamType[float]):
    """A number of seconds, or with a unit: 0.25, 250ms, 30s, 5m, 1h."""

    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _SECONDS.fullmatch(str(value).strip().lower())
        if found is None:
            self.fail(f"{value!r} is no length of time, such as 0.25, 250ms, 30s, 5m or 1h", param, ctx)
        return float(found[1]) * (0.001 if found[2] == "ms" else UNITS[found[2] or "s"])


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


def _spell(seconds: float) -> str:
    """As it is typed: 90d."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % UNITS[unit] == 0:
            return f"{seconds / UNITS[unit]:.0f}{unit}"
    return f"{seconds:.0f}s"
