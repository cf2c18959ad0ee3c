"""Broken promises in sentences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.cases import loop_over

from redrive import store
from redrive.model.violation import ViolationCode
from redrive.words.violation import describe_violation

TEXTS = (
    "dead_letter_id dead_letter_org dead_letter_state definition fingerprint id org outcome place run_id "
    "state step step_state worker workflow"
)
VALUES: dict[str, Any] = {
    **{name: f"<{name}>" for name in TEXTS.split()},
    "about": "lease",
    "holder": "task:<holder>",
    "kind": "dead letter",
}
"""A value of each field that is not a number."""
OTHERS = {ViolationCode.LIMIT_EXCEEDED: {"kind": "rate_limit_wait"}}


def fields_of(code: ViolationCode) -> dict[str, Any]:
    return {name: VALUES.get(name, 42) for name in code.fields} | OTHERS.get(code, {})


@loop_over("code", list(ViolationCode))
def test_each_code_is_described_from_its_own_fields(code: ViolationCode) -> None:
    fields = fields_of(code)
    text = describe_violation(code, fields)
    assert text.endswith((".", "?", "…"))
    assert [name for name in fields if name in TEXTS.split() and f"<{name}>" not in text] == []


@loop_over("code", [code for code in ViolationCode if "step_index" in code.fields])
def test_steps_are_numbered_from_1(code: ViolationCode) -> None:
    assert "tep 8" in describe_violation(code, fields_of(code) | {"step_index": 7})


def test_each_kind_of_contradiction_has_a_sentence() -> None:
    path = Path(store.__file__).parent / "sql" / "verification.sql"
    text = path.read_text(encoding="utf-8")
    statement = text[text.index("-- name: contradictions") : text.index("-- name: steps_missing")]
    kinds = set(re.findall(r"THEN '(\w+)'", statement))
    assert len(kinds) > 10
    fields = fields_of(ViolationCode.CONTRADICTION)
    told = {describe_violation(ViolationCode.CONTRADICTION, fields | {"about": kind}) for kind in kinds}
    assert len(told) == len(kinds)
