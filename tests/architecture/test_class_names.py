"""One class name means one thing in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import redrive

SOURCE = Path(redrive.__file__).parent
TWICE = {
    # Bodies of requests: their names are those of the schemas in the OpenAPI document.
    "Dependency",
    "Health",
    "Reopening",
}
"""The exceptions; this set may only shrink."""


def test_a_class_name_is_in_one_module() -> None:
    modules = defaultdict(set)
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].add(str(file.relative_to(SOURCE)))

    assert {name for name, found in modules.items() if len(found) > 1} == TWICE
