"""Lengths of time on the command line: 30m, 12h, 90d, 4w."""

from __future__ import annotations

import re

import click

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,9})([smhdw])")


class Duration(click.ParamType[float]):
    """In seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _DURATION.fullmatch(str(value).strip().lower())
        if found is None:
            self.fail(
                f"{value!r} is no length of time: a number and one of s, m, h, d, w, such as 90d", param, ctx
            )
        return float(found[1]) * SECONDS[found[2]]


DURATION = Duration()
