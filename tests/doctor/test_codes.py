"""The doctor's modules contain only facts: declared codes with their fields, and no sentences."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from tests.doctor.diagnosis import about

from redrive import doctor
from redrive.app import Redrive
from redrive.doctor import FindingCode, examine
from redrive.parts import parts_of

MODULES = sorted(Path(doctor.__file__).parent.glob("*.py"))
NODES = [node for path in MODULES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
OF_A_FINDING = {"check", "code", "state", "seen", "meaning", "advice", "command"}
COMMANDS = ("SELECT ", "ROLLBACK ", "VACUUM ", "chmod ", "pip ", "psql ", "redrive ", "timedatectl ")


def code_of(node: ast.AST) -> FindingCode | None:
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == FindingCode.__name__:
        return FindingCode[node.attr]
    return None


def test_every_declared_code_is_used() -> None:
    assert {code for node in NODES if (code := code_of(node))} == set(FindingCode)


def test_no_field_hides_another_part_of_a_finding() -> None:
    assert [code for code in FindingCode if OF_A_FINDING & set(code.fields)] == []


def test_each_finding_has_the_declared_fields() -> None:
    given = [
        (code, {keyword.arg for keyword in node.keywords})
        for node in NODES
        if isinstance(node, ast.Call) and node.args and (code := code_of(node.args[0]))
    ]
    assert len(given) > 60
    whole = [(code, names) for code, names in given if None not in names]  # without `**fields`
    assert len(whole) > 50
    assert [(code, names) for code, names in whole if names != set(code.fields)] == []


async def test_a_real_report_has_the_declared_fields_as_json_values(app: Redrive) -> None:
    """Including those that a module gives as `**fields`."""
    report = await examine(parts_of(app).database, keys=())
    for finding in report.findings:
        assert set(finding.fields) == set(finding.code.fields), finding
        assert finding.check == finding.code.check
        assert list(json.loads(json.dumps(finding.to_json())))[:3] == ["check", "code", "state"]
    assert about(report, "durability")


def texts() -> Iterator[str]:
    """Yield texts that are not docstrings."""
    docstrings = [node.value for node in NODES if isinstance(node, ast.Expr)]
    for node in NODES:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.value


def test_no_module_has_a_sentence() -> None:
    known = {code.check for code in FindingCode} | {"replication slot"}
    found = [text for text in texts() if " " in text.strip() and text not in known]
    assert [text for text in found if not text.startswith(COMMANDS)] == []
