"""Findings of the doctor in sentences."""

from __future__ import annotations

from typing import Any

from tests.cases import loop_over

from redrive.model.finding import FindingCode
from redrive.words.finding import describe_finding

STEP = {"run_id": "r", "org": "o", "workflow": "w", "step": "s", "task": "t", "attempt": 1}
TEXTS = (
    "activity archive_mode breaker by database error file_system fsync full_page_writes holder host "
    "journal_mode mode name org path program python queue reason redrive run_id slot step synchronous "
    "synchronous_commit table user version wal_level worker"
)
VALUES: dict[str, Any] = {
    **{name: f"<{name}>" for name in TEXTS.split()},
    "autovacuum_off": True,
    "blocking_step": STEP,
    "breaker_state": "OPEN",
    "holder": "task:<holder>",
    "is_late": True,
    "keeps_rows": True,
    "missing_keys": ["<missing_keys>"],
    "server_ahead": True,
    "workers": ["<workers>"],
}
"""A value of each field that is not a number."""


def fields_of(code: FindingCode) -> dict[str, Any]:
    fields = {name: VALUES.get(name, 42) for name in code.fields}
    return fields | {"workers": 42} if code is FindingCode.WORKERS_RUNNING else fields


@loop_over("code", list(FindingCode))
def test_each_code_is_described_from_its_own_fields(code: FindingCode) -> None:
    fields = fields_of(code)
    seen = describe_finding(code, fields).seen
    assert seen
    assert [name for name in fields if name in TEXTS.split() and f"<{name}>" not in seen] == []


def test_a_number_at_the_bound_has_a_plus() -> None:
    it = {"queue": "mail", "runs": 10_000}
    assert "10,000+ runs" in describe_finding(FindingCode.QUEUE_WILL_NEED_WORKER, it).seen
    assert "; 1 run in it" in describe_finding(FindingCode.QUEUE_WILL_NEED_WORKER, it | {"runs": 1}).seen


def test_a_few_workers_are_named_and_the_others_counted() -> None:
    it = {"steps": 9, "oldest_seconds": 90.0, "workers": [None, *(f"w{number}" for number in range(6))]}
    seen = describe_finding(FindingCode.LEASES_EXPIRED, it).seen
    assert seen.startswith("9 steps leased to an unknown worker, w0, w1, w2, w3 and 2 more; ")
