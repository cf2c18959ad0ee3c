"""The diagram of the packages matches the import contracts, and the tour names modules that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "redrive"
PAGE = (ROOT / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")
ROWS = ("interfaces", "composition", "services", "ground", "language", "model")


def drawn() -> list[str]:
    drawing = PAGE.split("```")[1]
    titles = "|".join(ROWS)
    return [re.sub(rf"^ (?:{titles})?\s+", "", line) for line in drawing.splitlines() if line.strip()]


def test_the_drawing_is_that_of_the_import_contracts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [layers] = [
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]

    assert drawn() == layers


def test_every_package_is_described() -> None:
    packages = {file.parent.name for file in SOURCE.glob("*/__init__.py")} - {"asgi"}
    described = set(re.findall(r"`(\w+)`", PAGE))

    assert packages <= described


def test_the_walk_names_modules_that_exist() -> None:
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+)`", PAGE)) - {"src/redrive"}

    assert len(named) > 20
    assert {name for name in named if not (SOURCE / f"{name}.py").is_file()} == set()
