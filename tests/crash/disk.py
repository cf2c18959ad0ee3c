"""A disk that becomes full, and is freed again.

Where mounting is permitted, it is a small file system whose size is set to its current use. Elsewhere, the
kernel's limit on file sizes replaces it, in every process that writes.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

_ROOMY, _NOTHING = 1_000_000_000, 1
"""Bytes."""
_TRIES = 100


class Disk(Protocol):
    def fill(self, processes: Iterable[int]) -> None: ...

    def free(self, processes: Iterable[int]) -> None: ...

    def close(self) -> None: ...


def small_disk(folder: Path) -> Disk:
    """Yield a disk at this folder, which must exist and be empty."""
    done = _mount(folder, "-t", "tmpfs", "-o", f"size={_ROOMY}", "tmpfs")
    if done.returncode == 0:
        return Mounted(folder)
    told = f"no disk was filled, only files limited: mounting is not permitted ({done.stderr.strip()})"
    warnings.warn(told, stacklevel=2)
    return Limited()


class Mounted:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fill(self, processes: Iterable[int]) -> None:
        for _ in range(_TRIES):  # a write between the read and the change makes the change fail
            if self._resized(shutil.disk_usage(self._folder).used):
                return
        raise RuntimeError("the disk cannot be made smaller")

    def free(self, processes: Iterable[int]) -> None:
        assert self._resized(_ROOMY)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", self._folder], check=True)

    def _resized(self, size: int) -> bool:
        return _mount(self._folder, "-o", f"remount,size={size}").returncode == 0


class Limited:
    def fill(self, processes: Iterable[int]) -> None:
        _limit(processes, _NOTHING)

    def free(self, processes: Iterable[int]) -> None:
        _limit(processes, resource.RLIM_INFINITY)

    def close(self) -> None:
        """Do nothing: nothing is mounted."""


def _limit(processes: Iterable[int], size: int) -> None:
    for process in processes:
        try:
            _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
            resource.prlimit(process, resource.RLIMIT_FSIZE, (size, hard))
        except ProcessLookupError:
            continue


def _mount(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("mount") or "/bin/false"
    return subprocess.run([program, *options, str(folder)], capture_output=True, text=True, check=False)
