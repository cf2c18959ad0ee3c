"""The reference pages are what the code says now."""

import runpy
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = runpy.run_path(str(REFERENCE / "generate.py"))["PAGES"]


@pytest.mark.parametrize("name", sorted(PAGES))
def test_is_up_to_date(name: str) -> None:
    assert (REFERENCE / name).read_text() == PAGES[name](), f"{name} is out of date: run make docs"
