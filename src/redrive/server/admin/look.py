"""How somebody likes the pages: light or dark, in which time zone. Their browser keeps it, in a cookie."""

from __future__ import annotations

from typing import Literal, NamedTuple, cast
from urllib.parse import unquote
from zoneinfo import ZoneInfo, available_timezones

from starlette.requests import Request

COOKIE = "redrive_look"
Theme = Literal["auto", "light", "dark"]
_THEMES = ("auto", "light", "dark")
_ZONES = available_timezones()


class Look(NamedTuple):
    theme: Theme = "auto"
    zone: ZoneInfo = ZoneInfo("UTC")

    @classmethod
    def of(cls, request: Request) -> Look:
        return cls.read(request.cookies.get(COOKIE, ""))

    @classmethod
    def read(cls, text: str) -> Look:
        """Such as "dark|Europe/Zurich"; whatever is not understood is left at its default."""
        theme, _, zone = unquote(text).partition("|")
        return cls(
            cast(Theme, theme) if theme in _THEMES else "auto", ZoneInfo(zone if zone in _ZONES else "UTC")
        )
