"""PostgreSQL: does the server keep what it acknowledges, and does its clock agree with ours?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from redrive.doctor.finding import Finding, State, ok
from redrive.doctor.limits import Limits
from redrive.store.postgres_condition import Server
from redrive.words.duration import duration
from redrive.words.number import size

_OFF = {
    "fsync": (
        State.BAD,
        "After a crash of the machine the whole database may be damaged beyond repair.",
        "Set fsync = on in postgresql.conf, and reload.",
    ),
    "synchronous_commit": (
        State.BAD,
        "What was acknowledged in the last moments before a crash of the server is lost.",
        "Set synchronous_commit = on, for the server, the database, the user or in the address.",
    ),
    "full_page_writes": (
        State.WARN,
        "After a crash pages may be half written, unless the file system itself prevents that.",
        "Set full_page_writes = on in postgresql.conf, and reload.",
    ),
}


def judge_server(place: str, server: Server) -> Finding:
    seen = f"PostgreSQL {server.version.split()[0]}: {place}, {size(server.bytes)}"
    if server.in_recovery:
        return Finding(
            "database",
            State.BAD,
            f"{seen}; it is a standby",
            "It is read-only: nothing can be started, and no worker can work on it.",
            "Name the primary in database_url, or several hosts.",
            "redrive config",
        )
    return ok("database", seen)


def judge_durability(settings: Mapping[str, str]) -> Iterator[Finding]:
    for name, (state, meaning, advice) in _OFF.items():
        if settings.get(name) == "off":
            yield Finding("durability", state, f"{name} is off", meaning, advice)
    if all(settings.get(name) != "off" for name in _OFF):
        seen = ", ".join(f"{name} is {settings.get(name, 'not known')}" for name in _OFF)
        yield ok("durability", seen)
    archive = settings.get("archive_mode", "off")
    hint = "only what was dumped can be restored" if archive == "off" else "the log is archived"
    yield ok("backups", f"wal_level is {settings.get('wal_level')}, archive_mode is {archive}: {hint}")


def judge_clock(difference: float, accuracy: float, limits: Limits) -> Finding:
    """`difference` is how far the server is ahead, give or take `accuracy`, in seconds."""
    certain = max(0.0, abs(difference) - accuracy)
    if certain <= limits.clock_seconds:
        return ok("clock", f"the server's and this machine's agree within {_fine(abs(difference), accuracy)}")
    which = "ahead of" if difference > 0 else "behind"
    return Finding(
        "clock",
        State.BAD if certain > 10 * limits.clock_seconds else State.WARN,
        f"the server's is {duration(certain)} {which} this machine's",
        "Leases go by the server's, but times in logs, and what is due, are compared with this machine's.",
        "Let both keep time by NTP.",
        "timedatectl status",
    )


def _fine(difference: float, accuracy: float) -> str:
    return f"{max(0.001, difference + accuracy) * 1000:.0f} ms"
