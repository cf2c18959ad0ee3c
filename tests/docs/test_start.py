"""The first page works as written: from the first run to the first replay, in real terminals."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.docs.story import Place, Story, comparable

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "start.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_works_as_written(page: Path) -> None:
    """In a directory with a short name, so that lines wrap where they do for a reader."""
    with TemporaryDirectory() as directory:
        play(page, Place(Path(directory)))


@pytest.mark.parametrize(
    ("seen", "agree"),
    [
        ("12 s  charge  KeyError: '…", True),
        ("2 s  charge  KeyError: 'cocoa'", True),
        ("12 s  charge  Key…", True),
        ("12 s  charge  ValueError: 'c…", False),
        ("12 s  refund  KeyError: '…", False),
        ("12 s  charge  KeyError: 'c…\nanother line", False),
    ],
)
def test_a_cut_line_agrees_up_to_the_cut(seen: str, agree: bool) -> None:
    expected, masked = comparable("2 s  charge  KeyError: 'c…", seen)
    assert (masked == expected) is agree


def play(page: Path, place: Place) -> None:
    try:
        for typed, shown, really in Story(page, place).play():
            if shown:
                expected, seen = comparable(shown, really)
                assert seen == expected, f"after {typed}"
        place.end("worker")
        place.end("serve")
    finally:
        place.close()
