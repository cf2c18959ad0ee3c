"""SQLite: whether the file is durable, private, and on a suitable disk."""

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
    """`system` is the type of the file system; empty if unknown."""

    free_bytes: int
    bytes: int
    system: str


def disk_of(path: str) -> Disk:
    place = Path(path).resolve().parent
    used = shutil.disk_usage(place)
    return Disk(used.free, used.total, _system(place))


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
            "What was acknowledged last is lost when the machine stops, and the file may be damaged.",
            "Make the application without durable=False.",
        )
    if condition.journal != "wal":
        return Finding(
            "durability",
            State.WARN,
            seen,
            "Whoever reads and whoever writes wait for each other.",
            "Nothing, if no worker has used the file yet: the first one changes that. Otherwise see whether "
            "its disk is a network's, or somebody has changed it.",
        )
    return ok("durability", seen)


def judge_rights(path: str, condition: SqliteCondition) -> Finding:
    if condition.mode & 0o077:
        return Finding(
            "file rights",
            State.WARN,
            f"others on this machine may use the file: its rights are {condition.mode:o}",
            "It holds payloads.",
            "Let only the user of the workers read and write it.",
            f"chmod 600 {quote(path)}",
        )
    return ok("file rights", "only its owner may read and write the file")


def judge_log(condition: SqliteCondition, limits: DoctorLimits) -> Finding:
    if condition.log_bytes > limits.log_bytes:
        return Finding(
            "write-ahead log",
            State.WARN,
            f"it has {size(condition.log_bytes)}",
            "Somebody reads for so long that it cannot be cleaned up: it grows, and reading becomes slower.",
            "End long transactions and backups of other programs that use the file.",
        )
    return ok("write-ahead log", f"it has {size(condition.log_bytes)}")


def judge_disk(disk: Disk, limits: DoctorLimits) -> Iterator[Finding]:
    seen = f"{size(disk.free_bytes)} of {size(disk.bytes)} are free"
    if disk.free_bytes >= limits.free_bytes:
        yield ok("disk", seen)
    else:
        yield Finding(
            "disk",
            State.BAD if disk.free_bytes < limits.free_bytes / 10 else State.WARN,
            seen,
            "When it is full, nothing can be started and no result be kept; work then waits.",
            "Free some space, or keep finished runs for a shorter time (retention_days).",
        )
    if disk.system in NETWORKS:
        yield Finding(
            "file system",
            State.BAD,
            f"the file lies on a network's file system ({disk.system})",
            "SQLite's locks do not hold there: two machines can damage the file.",
            "Put it on a disk of this machine, or use PostgreSQL.",
        )
    elif disk.system:
        yield ok("file system", f"{disk.system}, of this machine")
    else:
        yield unknown("file system", "this system does not tell of which kind it is")


def _system(place: Path) -> str:
    """Return the file system of the innermost mount point above the path."""
    found: tuple[int, str] = (0, "")
    with suppress(OSError):
        for line in MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
            _, point, kind, *_ = line.split(" ")
            point = point.replace("\\040", " ")
            if place.is_relative_to(point) and len(point) >= found[0]:
                found = len(point), kind
    return found[1]
