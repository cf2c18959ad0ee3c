"""Where an error was raised: the frames of a stored traceback, those of the application first."""

from __future__ import annotations

import re
from typing import NamedTuple

from redrive.policy.fingerprint import is_application

MAX_COUNT = 5
_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'[ |+]*File "(.{1,500})", line (\d{1,9}), in (.{1,200})')


class Frame(NamedTuple):
    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def frames_of(stack: str | None) -> list[Frame]:
    """The deepest first, of the exception that was caught; those of libraries only if there are no others."""
    last = (stack or "").rpartition(_HEADER)[2]
    found = [Frame(each[1], int(each[2]), each[3]) for each in map(_FRAME.match, last.splitlines()) if each]
    found.reverse()
    return ([each for each in found if is_application("", each.file)] or found)[:MAX_COUNT]
