"""Judge a SQLite file: durability, permissions, write-ahead log, and the disk that it is on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from redrive.doctor.finding import DoctorLimits, Finding, State, ok, unknown
from redrive.store.sqlite_reader import SqliteCondition
from redrive.words.number import size

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
    free = f", {size(condition.free_bytes)} of it free" if condition.free_bytes else ""
    return ok("database", f"SQLite {condition.version}: {path}, {size(condition.bytes)}{free}")


def judge_durability(condition: SqliteCondition) -> Finding:
    seen = f"journal_mode is {condition.journal}, synchronous is {condition.synchronous}"
    if condition.synchronous == "off":
        return Finding(
            "durability",
            State.BAD,
            seen,
            "A machine crash loses the last acknowledged writes and can damage the file.",
            "Create the application without durable=False.",
        )
    if condition.journal != "wal":
        return Finding(
            "durability",
            State.WARN,
            seen,
            "Readers and writers block each other.",
            "Start a worker: the first one turns on the write-ahead log. If a worker has already run, check "
            "whether the file is on a network disk or another program changed the mode.",
        )
    return ok("durability", seen)


def judge_permissions(path: str, condition: SqliteCondition) -> Finding:
    if condition.mode & 0o077:
        return Finding(
            "file permissions",
            State.WARN,
            f"other users of this machine can open the file (mode {condition.mode:o})",
            "The file contains payloads.",
            "Restrict the file to the user that runs the workers.",
            f"chmod 600 {quote(path)}",
        )
    return ok("file permissions", "only the owner can read and write the file")


def judge_log(condition: SqliteCondition, limits: DoctorLimits) -> Finding:
    if condition.log_bytes > limits.log_bytes:
        return Finding(
            "write-ahead log",
            State.WARN,
            size(condition.log_bytes),
            "A long read keeps SQLite from truncating the log: the log grows and reads slow down.",
            "End long transactions and backups in other programs that use the file.",
        )
    return ok("write-ahead log", size(condition.log_bytes))


def judge_disk(disk: Disk, limits: DoctorLimits) -> Iterator[Finding]:
    seen = f"{size(disk.free_bytes)} of {size(disk.bytes)} free"
    if disk.free_bytes >= limits.free_bytes:
        yield ok("disk", seen)
    else:
        yield Finding(
            "disk",
            State.BAD if disk.free_bytes < limits.free_bytes / 10 else State.WARN,
            seen,
            "When the disk is full, no run can start and no result can be stored.",
            "Free some space, or lower retention_days to keep finished runs for a shorter time.",
        )
    if disk.system in NETWORKS:
        yield Finding(
            "file system",
            State.BAD,
            f"the file is on a network file system ({disk.system})",
            "SQLite's locks are unreliable there: two machines can damage the file.",
            "Move the file to a local disk, or use PostgreSQL.",
        )
    elif disk.system:
        yield ok("file system", f"{disk.system}, local")
    else:
        yield unknown("file system", "the operating system doesn't report the type")


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
