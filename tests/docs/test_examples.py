"""Every Python block of the documentation runs, and prints the block after it."""

import contextlib
import io
import re
from pathlib import Path

import pytest
from sybil import Document, Example
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser
from tests.threads import background_threads

ROOT = Path(__file__).parents[2]
STORIES = {ROOT / "docs" / "start.md"}  # test_start.py plays it
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - STORIES)


def run(example: Example) -> None:
    assert not example.namespace.get("printed"), "printed, but nothing shows what"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        PythonEvaluator()(example)
    example.namespace["printed"] = printed.getvalue()
    example.namespace["ran"] = True


def compare(example: Example) -> None:
    printed = example.namespace.pop("printed", "")
    if "ran" in example.namespace:
        assert printed.strip() == example.parsed.strip()


PARSERS = (CodeBlockParser("python", run), CodeBlockParser("text", compare))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    before = background_threads()
    document = Document.parse(str(page), *PARSERS)
    for example in document.examples():
        example.evaluate()
    assert not document.namespace.get("printed"), "printed, but nothing shows what"
    assert background_threads() <= before, "app.sync is not closed"


def test_the_guides_have_examples() -> None:
    for page in ROOT.glob("docs/guides/*.md"):
        assert re.search(r"^```(python|sh)$", page.read_text(), re.MULTILINE) or page.name == "index.md", page
