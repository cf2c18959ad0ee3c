"""A wall clock whose error is in a file; all processes that open the file share the error."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

from redrive.clock import SystemClock

_ERROR = struct.Struct("d")


def set_error(path: Path, seconds: float) -> None:
    """Set the error for all processes, in place, because they have the file mapped."""
    path.touch()
    with path.open("r+b") as file:
        file.write(_ERROR.pack(seconds))


class WrongClock(SystemClock):
    def __init__(self, path: str) -> None:
        with Path(path).open("rb") as file:
            self._error = mmap.mmap(file.fileno(), _ERROR.size, prot=mmap.PROT_READ)

    def now(self) -> float:
        return time.time() + float(_ERROR.unpack_from(self._error)[0])
