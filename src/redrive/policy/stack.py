"""Parsing of stored tracebacks: their exceptions, and the frames of each.

A reader first wants to know where their own code failed. The exception that was caught therefore comes first,
followed by its causes. Its frames come deepest first; application frames can be read separately. A text
without frames, such as a traceback of another language, stays raw text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from redrive.policy.fingerprint import is_application

MAX_EXCEPTIONS = 20
MAX_FRAMES = 200
MAX_CODE_LINES = 4
MAX_DEPTH = 10

_FRAME = re.compile(r'  File "(.*)", line (\d{1,9}), in (.*)')
_HEADER = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):")
_REPEATED = re.compile(r"  \[Previous line repeated (\d{1,9}) more times?\]")
_OMISSION = re.compile(r"… ([\d,]{1,20}) [^…]{1,40} …")
_UNDERLINE = re.compile(r"[\s^~]+")
_MARGIN = re.compile(r"( *)(?:\| ?|\+ (?=Exception Group ))(.*)")
_MEMBER = re.compile(r"( *)\+-(?:\+-)?-* (\d{1,9}|\.\.\.) -+")
_END = re.compile(r" *\+-+")
_LINKS = {
    "The above exception was the direct cause of the following exception:": "caused_by",
    "During handling of the above exception, another exception occurred:": "while_handling",
}
_GROUP = "Exception Group Traceback (most recent call last):"
_OWN_FOLDER = __file__[: -len("policy/stack.py")]
"""The folder of Redrive's modules: the text of a traceback contains no module names."""


class StackFrame(NamedTuple):
    """A call. `code` has its lines of source.

    repeated     the number of recursive calls that Python omitted
    application  whether it is in the user's code
    """

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


class RaisedException(NamedTuple):
    """An exception of a stack.

    message   its last lines: the type and the message
    frames    its frames, deepest first
    relation  "caused_by": it caused the previous exception; "while_handling": while it was handled, the
              previous exception was raised; else ""
    member    its number in an exception group
    depth     the number of exception groups around it
    omitted   how many characters were omitted when the traceback was stored
    """

    message: str
    frames: tuple[StackFrame, ...] = ()
    relation: str = ""
    member: str = ""
    depth: int = 0
    omitted: int = 0

    @property
    def application(self) -> tuple[StackFrame, ...]:
        """Its frames in the user's code."""
        return tuple(frame for frame in self.frames if frame.application)

    @property
    def libraries(self) -> tuple[StackFrame, ...]:
        """Its other frames."""
        return tuple(frame for frame in self.frames if not frame.application)


class Stack(NamedTuple):
    """`exceptions` is empty if the text has no frames; `left` counts exceptions beyond `MAX_EXCEPTIONS`."""

    exceptions: tuple[RaisedException, ...]
    text: str
    left: int = 0

    @property
    def frames(self) -> int:
        return sum(len(raised.frames) for raised in self.exceptions)

    @property
    def origin(self) -> tuple[StackFrame, ...]:
        """The frames of the caught exception, deepest first: application frames if there are any."""
        raised = self.exceptions[0] if self.exceptions else RaisedException("")
        return raised.application or raised.libraries


def omission(characters: int) -> str:
    """Return the line for omitted text in a stored traceback. `stack_of` reads only its number."""
    return f"… {characters:,} characters left out …"


def stack_of(text: str | None) -> Stack:
    text = (text or "").rstrip()
    parser = _Parser()
    for line in _lines(text):
        parser.take(*line)
    if not any(parsed.frames for parsed in parser.found):
        return Stack((), text)
    parts = [parsed for parsed in _ordered(parser.found) if parsed.frames or parsed.message]
    return Stack(
        tuple(_raised(parsed) for parsed in parts[:MAX_EXCEPTIONS]), text, max(0, len(parts) - MAX_EXCEPTIONS)
    )


@dataclass(slots=True)
class _Parsed:
    """An exception while its lines are parsed; `link` is its relation to the previous one in the text.

    After a gap, lines before the next frame belong to an omitted frame.
    """

    depth: int
    link: str = ""
    member: str = ""
    frames: list[StackFrame] = field(default_factory=list)
    message: list[str] = field(default_factory=list)
    omitted: int = 0
    after_gap: bool = False


class _Parser:
    """Parses line by line. `_in_frames`: an indented line belongs to the last frame, not to a message."""

    def __init__(self) -> None:
        self.found: list[_Parsed] = []
        self._link = ""
        self._member = ""
        self._in_frames = False

    def take(self, depth: int, line: str, member: str) -> None:
        if member:
            self._member = member
        elif _HEADER.fullmatch(line):
            self._start(depth)
            self._in_frames = True
        elif line in _LINKS:
            self._link, self._in_frames = _LINKS[line], False
        elif line or not self._link:
            self._take_part(depth, line)

    def _start(self, depth: int) -> _Parsed:
        self.found.append(_Parsed(depth, self._link, self._member))
        self._link = self._member = ""
        return self.found[-1]

    def _take_part(self, depth: int, line: str) -> None:
        is_new = not self.found or self._link or self._member
        current = self._start(depth) if is_new else self.found[-1]
        if found := _OMISSION.fullmatch(line):
            current.omitted = int(found[1].replace(",", "") or 0)
            current.after_gap = self._in_frames = True
        elif self._in_frames and (not line or line.startswith(" ")):
            _take_frame(current, line)
        elif not current.message and _FRAME.fullmatch(line):
            _take_frame(current, line)
            self._in_frames = True
        else:
            current.message.append(line)
            self._in_frames = False


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each line with the number of groups around it, and the number of the member that it starts."""
    grouped = _GROUP in text
    for line in text.split("\n"):
        if not grouped:
            yield 0, line.rstrip("\r"), ""
        elif member := _MEMBER.fullmatch(line):
            yield _depth(member[1]), "", member[2]
        elif inner := _MARGIN.fullmatch(line):
            yield _depth(inner[1]), inner[2], ""
        elif not _END.fullmatch(line):
            yield 0, line, ""


def _depth(margin: str) -> int:
    return min(MAX_DEPTH, max(0, len(margin) // 2 - 1))


def _take_frame(current: _Parsed, line: str) -> None:
    found = _FRAME.fullmatch(line)
    if found is not None:
        module = "redrive" if found[1].startswith(_OWN_FOLDER) else ""
        frame = StackFrame(found[1], int(found[2]), found[3], application=is_application(module, found[1]))
        current.frames.append(frame)
        current.after_gap = False
    elif current.after_gap:
        pass
    elif current.frames and (repeated := _REPEATED.fullmatch(line)):
        current.frames[-1] = current.frames[-1]._replace(repeated=int(repeated[1]))
    elif line.startswith("  File ") or current.message:
        current.message.append(line)  # the message of a SyntaxError contains its location
    elif current.frames and not _UNDERLINE.fullmatch(line) and len(current.frames[-1].code) < MAX_CODE_LINES:
        last = current.frames[-1]
        current.frames[-1] = last._replace(code=(*last.code, line.strip()))


def _ordered(found: Sequence[_Parsed]) -> list[_Parsed]:
    """Put an exception before its causes, and a group before its members."""
    if not found:
        return []
    lowest = min(parsed.depth for parsed in found)
    families: list[list[_Parsed]] = []
    for parsed in found:
        if parsed.depth == lowest or not families:
            families.append([parsed])
        else:
            families[-1].append(parsed)
    chains = _chains(families)
    return [
        parsed
        for chain in chains
        for first, *members in reversed(chain)
        for parsed in (first, *_ordered(members))
    ]


def _chains(families: Iterable[list[_Parsed]]) -> list[list[list[_Parsed]]]:
    """Split into chains of exceptions that caused each other; each member of a group starts a chain."""
    numbered: list[tuple[int, list[_Parsed]]] = []
    for family in families:
        before = numbered[-1][0] if numbered else 0
        numbered.append((before + bool(family[0].member), family))
    chains = [[family for _, family in chain] for _, chain in groupby(numbered, key=lambda pair: pair[0])]
    for chain in chains:
        _relate([family[0] for family in chain])
    return chains


def _relate(chain: list[_Parsed]) -> None:
    """Reverse the links: in the text, the later exception has the link; in a stack, the earlier one."""
    links = [parsed.link for parsed in chain[1:]] + [""]
    members = [parsed.member for parsed in chain]
    for parsed, link in zip(chain, links, strict=True):
        parsed.link, parsed.member = link, ""
    chain[-1].member = members[0]


def _raised(parsed: _Parsed) -> RaisedException:
    return RaisedException(
        "\n".join(parsed.message).strip("\n"),
        tuple(reversed(parsed.frames))[:MAX_FRAMES],
        parsed.link,
        parsed.member,
        parsed.depth,
        parsed.omitted,
    )
