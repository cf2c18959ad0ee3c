"""Judge a SQLite file: durability, permissions, write-ahead log, and the disk that it is on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from redrive.doctor.finding import DoctorLimits, Finding, bad, ok, unknown, warn
from redrive.model.finding import FindingCode
from redrive.store.sqlite_reader import SqliteCondition

MOUNTS = Path("/proc/mounts")
NETWORKS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "9p")


class Disk(NamedTuple):
    """The disk of a file. `system` is the type of its file system, or "" if unknown."""

    free_bytes: int
    bytes: int
    system: str


def disk_of(path: str) -> Disk:
    folder = Path(path).resolve().parent
    usage = shutil.disk_usage(folder)
    return Disk(usage.free, usage.total, _file_system(folder))


def judge_file(path: str, condition: SqliteCondition) -> Finding:
    return ok(
        FindingCode.SQLITE_FILE,
        version=condition.version,
        path=path,
        bytes=condition.bytes,
        free_bytes=condition.free_bytes,
    )


def judge_durability(condition: SqliteCondition) -> Finding:
    modes = {"journal_mode": condition.journal, "synchronous": condition.synchronous}
    if condition.synchronous == "off":
        return bad(FindingCode.SQLITE_SYNCHRONOUS_OFF, **modes)
    if condition.journal != "wal":
        return warn(FindingCode.SQLITE_WITHOUT_LOG, **modes)
    return ok(FindingCode.SQLITE_DURABLE, **modes)


def judge_permissions(path: str, condition: SqliteCondition) -> Finding:
    if condition.mode & 0o077:
        restrict = f"chmod 600 {quote(path)}"
        return warn(FindingCode.FILE_OPEN_TO_OTHERS, restrict, mode=f"{condition.mode:o}")
    return ok(FindingCode.FILE_PRIVATE)


def judge_log(condition: SqliteCondition, limits: DoctorLimits) -> Finding:
    if condition.log_bytes > limits.log_bytes:
        return warn(FindingCode.LOG_LARGE, bytes=condition.log_bytes)
    return ok(FindingCode.LOG_SIZE, bytes=condition.log_bytes)


def judge_disk(disk: Disk, limits: DoctorLimits) -> Iterator[Finding]:
    if disk.free_bytes >= limits.free_bytes:
        yield ok(FindingCode.DISK_SPACE, free_bytes=disk.free_bytes, bytes=disk.bytes)
    else:
        judge = bad if disk.free_bytes < limits.free_bytes / 10 else warn
        yield judge(FindingCode.DISK_FULL, free_bytes=disk.free_bytes, bytes=disk.bytes)
    if disk.system in NETWORKS:
        yield bad(FindingCode.FILE_SYSTEM_NETWORK, file_system=disk.system)
    elif disk.system:
        yield ok(FindingCode.FILE_SYSTEM_LOCAL, file_system=disk.system)
    else:
        yield unknown(FindingCode.FILE_SYSTEM_UNKNOWN)


def _file_system(folder: Path) -> str:
    """Return the file system type of the innermost mount point that contains the folder."""
    found: tuple[int, str] = (0, "")
    with suppress(OSError):
        for line in MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
            _, point, kind, *_ = line.split(" ")
            point = point.replace("\\040", " ")
            if folder.is_relative_to(point) and len(point) >= found[0]:
                found = len(point), kind
    return found[1]
