"""The trail of an exception: its way through the code.

Work fails in the same places again and again. What a way looks like, printed and as frames, is worked out
when it is taken for the first time.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath
from types import CodeType, TracebackType
from typing import NamedTuple

from redrive.policy import probe
from redrive.policy.fingerprint import TraceFrame, frames_of, traceback_of

MAX_FRAMES = 60
MAX_REMEMBERED, MAX_REMEMBERED_LENGTH = 256, 20_000

_Way = tuple[tuple[str, str, CodeType, int], ...]


class Trail(NamedTuple):
    """`printed` are the lines of the traceback; `where` is the innermost line of the application in it."""

    printed: str
    frames: tuple[TraceFrame, ...]
    where: str


_remembered: dict[_Way, Trail] = {}


def trail_of(error: BaseException) -> Trail:
    way = _way(traceback_of(error))
    trail = None if way is None else _remembered.get(way)
    if trail is None:
        trail = _worked_out(error)
        if way is not None:
            _remember(way, trail)
    return trail


def said(error: BaseException) -> str:
    """What stands below the traceback: the type, the message, and whatever belongs to them."""
    story = traceback.TracebackException(type(error), error, traceback_of(error), limit=0, compact=True)
    return "".join(story.format_exception_only())


def is_alone(error: BaseException) -> bool:
    """No other exception has to be told to tell this one."""
    hidden = error.__context__ is None or error.__suppress_context__
    return error.__cause__ is None and hidden and not probe.members(error)


def whole_story(error: BaseException) -> str:
    trace = _from_the_task_on(traceback_of(error))
    story = traceback.TracebackException(type(error), error, trace, limit=-MAX_FRAMES, compact=True)
    return "".join(story.format())


def _worked_out(error: BaseException) -> Trail:
    frames = frames_of(error)
    return Trail(_printed(traceback_of(error)), frames, _where(frames))


def _printed(trace: TracebackType | None) -> str:
    try:
        lines = traceback.extract_tb(_from_the_task_on(trace), limit=-MAX_FRAMES).format()
    except Exception:  # noqa: BLE001 — it reads the source, by loaders that are anybody's code
        return ""
    return "".join(["Traceback (most recent call last):\n", *lines]) if lines else ""


def _where(frames: tuple[TraceFrame, ...]) -> str:
    for frame in frames:
        if frame.application:
            return f"{PurePath(frame.file).name}:{frame.line} in {frame.function}"
    return ""


def _way(trace: TracebackType | None) -> _Way | None:
    """Which instructions it came past; None when they are too many to be remembered.

    Equal code in another file is equal, so that the file counts too.
    """
    steps: list[tuple[str, str, CodeType, int]] = []
    while trace is not None:
        if len(steps) == MAX_FRAMES:
            return None
        code = trace.tb_frame.f_code
        steps.append((_module(trace), code.co_filename, code, trace.tb_lasti))
        trace = trace.tb_next
    return tuple(steps)


def _remember(way: _Way, trail: Trail) -> None:
    if len(trail.printed) > MAX_REMEMBERED_LENGTH:
        return
    if len(_remembered) >= MAX_REMEMBERED:
        _remembered.clear()
    _remembered[way] = trail


def _from_the_task_on(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames in which Redrive calls the task."""
    own = trace
    while own is not None and _module(own).startswith("redrive."):
        own = own.tb_next
    return trace if own is None else own


def _module(trace: TracebackType) -> str:
    name = trace.tb_frame.f_globals.get("__name__")
    return name if type(name) is str else ""
