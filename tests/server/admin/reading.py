"""Parse a page into its visible text and its elements with their attributes."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

import httpx

VOID = frozenset({"input", "meta", "link", "br", "img", "hr", "option"})
HIDDEN = frozenset({"script", "style"})


class Element(NamedTuple):
    """An element of a page. `text` includes the text of its children."""

    tag: str
    attributes: dict[str, str]
    text: str


class Reading(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[tuple[str, dict[str, str], list[str]]] = [("document", {}, [])]
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        """Return the visible text with single blanks."""
        return " ".join("".join(self._open[0][2]).split())

    def find(self, tag: str, **attributes: str) -> list[Element]:
        """Find elements by tag and attributes. Underscores in names become hyphens: `data_action`."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            each
            for each in self.elements
            if each.tag == tag and all(each.attributes.get(name) == value for name, value in wanted.items())
        ]

    @property
    def actions(self) -> list[str]:
        """Return the method and path of every action that the page offers."""
        return [each.attributes["data-action"] for each in self.elements if "data-action" in each.attributes]

    @property
    def links(self) -> list[str]:
        return [each.attributes.get("href", "") for each in self.elements if each.tag == "a"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag in VOID:
            self.elements.append(Element(tag, attributes, ""))
        else:
            self._open.append((tag, attributes, []))

    def handle_endtag(self, tag: str) -> None:
        while len(self._open) > 1 and tag in [each[0] for each in self._open[1:]]:
            name, attributes, parts = self._open.pop()
            text = " ".join("".join(parts).split())
            self.elements.append(Element(name, attributes, text))
            if name not in HIDDEN:
                self._open[-1][2].extend([" ", *parts, " "])
            if name == tag:
                return

    def handle_data(self, data: str) -> None:
        self._open[-1][2].append(data)


async def read(client: httpx.AsyncClient, path: str, status: int = 200) -> Reading:
    answer = await client.get(path)
    assert answer.status_code == status, answer.text[:2000]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Reading(answer.text)
