"""The site builds without a warning, is complete, and requests nothing from other hosts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "docs").rglob("*.md"))
_QUIET = {"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin"}
_FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}


class Reader(HTMLParser):
    """Collects what a browser would load, and where the navigation leads."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.linked: list[str] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in _FETCHED and given.get(_FETCHED[tag]):
            self.fetched.append(given[_FETCHED[tag]])
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(given.get("href", ""))
        if tag == "a" and "md-nav__link" in given.get("class", ""):
            self.linked.append(given.get("href", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    built = subprocess.run(command, cwd=ROOT, env=_QUIET, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert not re.search(r"WARNING|ERROR", built.stderr), built.stderr
    return directory


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text())
    return reader


def test_every_page_is_there(site: Path) -> None:
    expected = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in SOURCES}
    assert expected <= {page.relative_to(site) for page in site.rglob("*.html")}


def test_the_site_fetches_nothing_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert [url for url in read(page).fetched if re.match(r"(https?:)?//", url)] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"""(url\(|@import )['"]?(https?:)?//""", sheet.read_text()), sheet


def test_every_page_is_in_the_navigation(site: Path) -> None:
    reached, waiting = {Path("index.html")}, [Path("index.html")]
    while waiting:
        page = waiting.pop()
        for href in read(site / page).linked:
            target = (site / page.parent / href.split("#")[0]).resolve()
            if target.suffix == ".html" and (found := target.relative_to(site)) not in reached:
                reached.add(found)
                waiting.append(found)
    assert {page.relative_to(ROOT / "docs").with_suffix(".html") for page in SOURCES} <= reached


def test_it_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"] for entry in index["docs"] if "canary" in entry["text"]}
    assert any(location.startswith("guides/bulk-replay.html") for location in found)


def test_drawings_are_part_of_their_page(site: Path) -> None:
    page = (site / "reference" / "states.html").read_text()
    assert page.count('<svg xmlns="http://www.w3.org/2000/svg" class="states"') == 7
    assert "DLQ_PENDING</text>" in page
    assert "prefers-color-scheme:dark" not in page
    assert "mermaid" not in page
