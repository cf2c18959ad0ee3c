"""The checker's modules contain only facts: declared codes with their fields, and no sentences."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from redrive import verify
from redrive.policy import audit_chain
from redrive.verify import ViolationCode
from redrive.verify.checks import ALWAYS, SETTLED, WHILE_WORKING


def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


NODES = [node for path in sorted(Path(verify.__file__).parent.glob("*.py")) for node in nodes_of(path)]
CHAIN = nodes_of(Path(audit_chain.__file__))
OF_A_VIOLATION = {"invariant", "subject", "code", "text"}
POPULATIONS = {check.population for check in (*ALWAYS, *WHILE_WORKING, *SETTLED)} | {"in use"}
SUMMARIES = {
    "Every checked promise is kept.",
    "Broken promises: ",
    "at least ",
    " checked",
    "nothing to check",
}
"""Texts of `str(verdict)`."""


def code_of(node: ast.AST) -> ViolationCode | None:
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == ViolationCode.__name__:
        return ViolationCode[node.attr]
    return None


def facts_of_the_chain() -> dict[str, set[str | None]]:
    """The facts that the check of an audit chain reports, with their fields."""
    return {
        node.args[0].value: {keyword.arg for keyword in node.keywords}
        for node in CHAIN
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "fact"
        if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    }


def test_every_declared_code_is_used() -> None:
    used = {code for node in NODES if (code := code_of(node))}
    assert used | (facts_of_the_chain().keys() & set(ViolationCode)) == set(ViolationCode)


def test_every_fault_of_a_chain_has_a_code() -> None:
    """Except faults that only a comparison with an exported head finds; the checker has no such head."""
    facts = facts_of_the_chain()
    assert facts.keys() - set(ViolationCode) == {"audit_rewritten", "audit_head_of_other_org"}
    declared = {code: set(code.fields) for code in ViolationCode if code in facts}
    assert {code: facts[code] for code in declared} == declared


def test_no_field_hides_another_part_of_a_violation() -> None:
    assert [code for code in ViolationCode if OF_A_VIOLATION & set(code.fields)] == []


def test_each_violation_has_the_declared_fields() -> None:
    """The fields of `checks` are the columns of their statements, so the numbers must match."""
    given = [
        (code, {keyword.arg for keyword in node.keywords})
        for node in NODES
        if isinstance(node, ast.Call) and node.args and (code := code_of(node.args[0]))
        if ast.unparse(node.func) == "verdict.add_violation"
    ]
    assert len(given) > 15
    whole = [(code, names) for code, names in given if None not in names]  # without `**fields`
    assert len(whole) > 15
    assert [(code, names) for code, names in whole if names != set(code.fields)] == []


def texts() -> Iterator[str]:
    """Yield texts that are not docstrings."""
    docstrings = [node.value for node in NODES if isinstance(node, ast.Expr)]
    for node in NODES:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.value


def test_no_check_decides_by_a_sentence() -> None:
    """Only the verdict renders the findings of the checks."""
    importing = {
        path.stem
        for path in sorted(Path(verify.__file__).parent.glob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("redrive.words")
    }
    assert importing == {"verdict"}


def test_no_module_has_a_sentence() -> None:
    found = [text for text in texts() if " " in text.strip()]
    assert [text for text in found if text not in POPULATIONS | SUMMARIES] == []
