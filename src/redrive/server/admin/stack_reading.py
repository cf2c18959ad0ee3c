"""Reading a stored traceback line by line: which exceptions it tells of, and which frames each has passed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePath
from typing import NamedTuple

from redrive.policy.fingerprint import is_application

MAX_CODE_LINES = 4
MAX_DEPTH = 10

_FRAME = re.compile(r'  File "(.*)", line (\d{1,9}), in (.*)')
_HEADER = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):")
_REPEATED = re.compile(r"  \[Previous line repeated (\d{1,9}) more times?\]")
_LEFT_OUT = re.compile(r"… [\d,]{1,20} characters left out …")
_UNDERLINE = re.compile(r"[\s^~]+")
_MARGIN = re.compile(r"( *)(?:\| ?|\+ (?=Exception Group ))(.*)")
_MEMBER = re.compile(r"( *)\+-(?:\+-)?-* (\d{1,9}|\.\.\.) -+")
_END = re.compile(r" *\+-+")
_LINKS = {
    "The above exception was the direct cause of the following exception:": "caused by",
    "During handling of the above exception, another exception occurred:": "while handling",
}
_GROUP = "Exception Group Traceback (most recent call last):"


class StackFrame(NamedTuple):
    """`repeated` counts the calls of itself that were left out; `application`: it is the user's own code."""

    file: str
    line: int
    function: str
    code: tuple[str, ...] = ()
    repeated: int = 0
    application: bool = True

    @property
    def folder(self) -> str:
        return self.file[: len(self.file) - len(self.name)]

    @property
    def name(self) -> str:
        return re.split(r"[\\/]", self.file)[-1]


@dataclass(slots=True)
class Found:
    """An exception while it is read; `link` is what it is to the one before it in the text.

    After a gap, what comes before the next frame belongs to one that was left out.
    """

    depth: int
    link: str = ""
    member: str = ""
    frames: list[StackFrame] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    gap: str = ""
    after_gap: bool = False


def read(text: str) -> list[Found]:
    """In the order of the text."""
    reading = _Reading()
    for line in _lines(text):
        reading.take(*line)
    return reading.found


class _Reading:
    """`_in_frames`: what is indented belongs to the last frame, and not to a message."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self._link = ""
        self._member = ""
        self._in_frames = False

    def take(self, depth: int, line: str, member: str) -> None:
        if member:
            self._member = member
        elif _HEADER.fullmatch(line):
            self._begin(depth)
            self._in_frames = True
        elif line in _LINKS:
            self._link, self._in_frames = _LINKS[line], False
        elif line or not self._link:
            self._take_part(depth, line)

    def _begin(self, depth: int) -> Found:
        self.found.append(Found(depth, self._link, self._member))
        self._link = self._member = ""
        return self.found[-1]

    def _take_part(self, depth: int, line: str) -> None:
        begun = not self.found or self._link or self._member
        current = self._begin(depth) if begun else self.found[-1]
        if _LEFT_OUT.fullmatch(line):
            current.gap, current.after_gap, self._in_frames = line.strip("… "), True, True
        elif self._in_frames and (not line or line.startswith(" ")):
            _take_frame(current, line)
        elif not current.said and _FRAME.fullmatch(line):
            _take_frame(current, line)
            self._in_frames = True
        else:
            current.said.append(line)
            self._in_frames = False


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Each with how many groups it stands in, and the number of the member that it begins, if it does."""
    grouped = _GROUP in text
    for line in text.split("\n"):
        if not grouped:
            yield 0, line.rstrip("\r"), ""
        elif begins := _MEMBER.fullmatch(line):
            yield _depth(begins[1]), "", begins[2]
        elif within := _MARGIN.fullmatch(line):
            yield _depth(within[1]), within[2], ""
        elif not _END.fullmatch(line):
            yield 0, line, ""


def _depth(margin: str) -> int:
    return min(MAX_DEPTH, max(0, len(margin) // 2 - 1))


def _take_frame(current: Found, line: str) -> None:
    frame = _frame(line)
    if frame is not None:
        current.frames.append(frame)
        current.after_gap = False
    elif current.after_gap:
        pass
    elif current.frames and (repeated := _REPEATED.fullmatch(line)):
        current.frames[-1] = current.frames[-1]._replace(repeated=int(repeated[1]))
    elif (
        line.startswith("  File ") or current.said
    ):  # of a SyntaxError, which tells where it is in its message
        current.said.append(line)
    elif current.frames and not _UNDERLINE.fullmatch(line) and len(current.frames[-1].code) < MAX_CODE_LINES:
        last = current.frames[-1]
        current.frames[-1] = last._replace(code=(*last.code, line.strip()))


def _frame(line: str) -> StackFrame | None:
    found = _FRAME.fullmatch(line)
    if found is None:
        return None
    file = found[1]
    return StackFrame(file, int(found[2]), found[3], application=is_application(_module(file), file))


def _module(file: str) -> str:
    """The text does not tell the module; Redrive's own are known by where they lie."""
    return "redrive" if file.startswith(_own_folder()) else ""


@cache
def _own_folder() -> str:
    return f"{PurePath(__file__).parents[2]}/"
