"""Cells of a table: how much room a text takes on a terminal, where some signs take two places or none."""

from __future__ import annotations

from unicodedata import category, east_asian_width

ELLIPSIS = "…"


def width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_places, text))


def cut(text: str, room: int) -> str:
    if width(text) <= room:
        return text
    taken, kept = 0, []
    for sign in text:
        taken += _places(sign)
        if taken > room - 1:
            break
        kept.append(sign)
    return "".join(kept) + ELLIPSIS


def padded(text: str, room: int, right: bool) -> str:
    blanks = " " * max(0, room - width(text))
    return blanks + text if right else text + blanks


def _places(sign: str) -> int:
    if category(sign) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(sign) in "WF" else 1
