"""Findings, the report that lists them, and the thresholds for warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from redrive.duration import Seconds, to_seconds
from redrive.model.finding import FindingCode
from redrive.words.finding import Description, describe_finding


class State(StrEnum):
    """The result of a check. A note is neither good nor bad: something that you may want to know."""

    BAD = "bad"
    WARN = "warn"
    UNKNOWN = "unknown"
    NOTE = "note"
    OK = "ok"


class Finding(NamedTuple):
    """The result of one check, as facts. `seen`, `meaning` and `advice` are rendered from them.

    check    the subject of the check, such as "queues"
    fields   the values that belong to the code, which are JSON values
    command  a command that follows the advice, or shows more
    """

    check: str
    state: State
    code: FindingCode
    fields: Mapping[str, Any]
    command: str = ""

    @property
    def seen(self) -> str:
        """The observation, in one sentence."""
        return self._described.seen

    @property
    def meaning(self) -> str:
        """Why it matters; empty if all is well."""
        return self._described.meaning

    @property
    def advice(self) -> str:
        """What to do."""
        return self._described.advice

    @property
    def _described(self) -> Description:
        return describe_finding(self.code, self.fields)

    def to_json(self) -> dict[str, Any]:
        facts = {"check": self.check, "code": self.code, "state": self.state, **self.fields}
        return {**facts, **self._described._asdict(), "command": self.command}


class HealthReport(NamedTuple):
    """All findings. `database` names the examined database without secrets."""

    database: str
    findings: tuple[Finding, ...]

    def of(self, state: State) -> list[Finding]:
        return [finding for finding in self.findings if finding.state is state]

    def is_well(self, *, strict: bool = False) -> bool:
        """Return True if nothing is bad and, with `strict`, there are no warnings."""
        return not self.of(State.BAD) and not (strict and self.of(State.WARN))

    def __str__(self) -> str:
        return "\n".join(line for state in State for finding in self.of(state) for line in _lines(finding))


def bad(code: FindingCode, command: str = "", /, **fields: Any) -> Finding:
    return Finding(code.check, State.BAD, code, fields, command)


def warn(code: FindingCode, command: str = "", /, **fields: Any) -> Finding:
    return Finding(code.check, State.WARN, code, fields, command)


def unknown(code: FindingCode, /, **fields: Any) -> Finding:
    return Finding(code.check, State.UNKNOWN, code, fields)


def note(code: FindingCode, /, **fields: Any) -> Finding:
    return Finding(code.check, State.NOTE, code, fields)


def ok(code: FindingCode, /, **fields: Any) -> Finding:
    return Finding(code.check, State.OK, code, fields)


def _lines(finding: Finding) -> Iterable[str]:
    yield f"{finding.state:<8}{finding.check}: {finding.seen}"
    for text in (finding.meaning, finding.advice, finding.command):
        if text:
            yield f"{'':8}{text}"


@dataclass(frozen=True, slots=True)
class DoctorLimits:
    """Thresholds beyond which the doctor warns.

    clock_seconds            difference between the clocks; ten times as much is bad
    transaction_seconds      age of an open transaction
    old_transaction_seconds  age at which an open transaction is bad
    dead_rows, dead_share    dead row versions, and their ratio to live rows; five times the ratio is bad
    connections              share of connections in use
    leeway_seconds           how long an expired lease or a due run may wait for a worker
    silent_seconds           time without a report after which a worker is gone; workers report every 10 s
    backlog_seconds          how long runs may be ready while workers serve their queue
    letter_seconds           age of a dead letter that needs attention
    free_bytes               free disk space; less than a tenth of it is bad
    log_bytes                size of SQLite's write-ahead log

    Durations also accept a timedelta.
    """

    clock_seconds: float = 2.0
    transaction_seconds: float = 60.0
    old_transaction_seconds: float = 1_800.0
    dead_rows: int = 10_000
    dead_share: float = 0.2
    connections: float = 0.8
    leeway_seconds: float = 30.0
    silent_seconds: float = 60.0
    backlog_seconds: float = 300.0
    letter_seconds: float = 86_400.0
    free_bytes: int = 1_000_000_000
    log_bytes: int = 256_000_000

    if TYPE_CHECKING:

        def __init__(
            self,
            clock_seconds: Seconds = ...,
            transaction_seconds: Seconds = ...,
            old_transaction_seconds: Seconds = ...,
            dead_rows: int = ...,
            dead_share: float = ...,
            connections: float = ...,
            leeway_seconds: Seconds = ...,
            silent_seconds: Seconds = ...,
            backlog_seconds: Seconds = ...,
            letter_seconds: Seconds = ...,
            free_bytes: int = ...,
            log_bytes: int = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name.endswith("_seconds"):
                object.__setattr__(self, field.name, to_seconds(getattr(self, field.name)))


DEFAULT_LIMITS = DoctorLimits()
