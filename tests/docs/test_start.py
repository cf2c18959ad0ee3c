"""The first page works as it is written: from the first run to the first replay, in real terminals."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.docs.story import Place, Story, masked

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "start.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_story_of(page: Path) -> None:
    """In a directory with a short name, so that lines break where they do for a reader."""
    with TemporaryDirectory() as directory:
        play(page, Place(Path(directory)))


def play(page: Path, place: Place) -> None:
    try:
        for typed, shown, really in Story(page, place).play():
            if shown:
                assert masked(shown) == masked(really), f"after {typed}"
        place.end("worker")
        place.end("serve")
    finally:
        place.close()
