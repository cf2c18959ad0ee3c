"""Lengths of time on the command line: 30m, 12h, 90d, 4w."""

from __future__ import annotations

import re
from math import inf

import click

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,9})([smhdw])")


class Duration(click.ParamType[float]):
    """In seconds."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = inf) -> None:
        self._least = least
        self._most = most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _DURATION.fullmatch(str(value).strip().lower())
        if found is None:
            self.fail(
                f"{value!r} is no length of time: a number and one of s, m, h, d, w, such as 90d", param, ctx
            )
        seconds = float(found[1]) * SECONDS[found[2]]
        if not self._least <= seconds <= self._most:
            self.fail(f"{value!r} is not {self._range()}", param, ctx)
        return seconds

    def _range(self) -> str:
        least = f"at least {spelled(self._least)}"
        return least if self._most == inf else f"{least} and at most {spelled(self._most)}"


def spelled(seconds: float) -> str:
    """As it is written on the command line."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % SECONDS[unit] == 0:
            return f"{seconds / SECONDS[unit]:.0f}{unit}"
    return f"{seconds:.0f}s"


DURATION = Duration(most=36_500 * 86_400.0)
"""So far from now, calendars still know what day it is."""
