"""Counts stilted phrases in docs, docstrings, messages and pages: `python -m tests.plain_english [--list]`.

Part of `make check`. A place with more than 2 phrases per 1,000 words fails. The list is a sample of phrases
that readers stumble over: text can avoid every phrase and still be hard to read.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "redrive"
ALLOWED = 2.0
"""Phrases per 1,000 words."""

PHRASES = (Path(__file__).parent / "stilted_phrases.txt").read_text(encoding="utf-8").splitlines()
STILTED = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][a-z']+")
CODE = r"```.*?```|`[^`]*`"
TAGS = r"<(?:script|style)\b.*?</(?:script|style)>|<[^>]+>|\{[{%#].*?[%#}]\}|\]\([^)]*\)"
MARKUP = re.compile(f"{CODE}|{TAGS}", re.DOTALL)


class Text(NamedTuple):
    place: str
    path: Path
    words: str


def main() -> int:
    texts = [*_pages(), *_docs(), *_source()]
    lists = "--list" in sys.argv
    if lists:
        _print_phrases(texts)
    stilted = False
    for place in dict.fromkeys(text.place for text in texts):
        rate = _rate([text for text in texts if text.place == place])
        stilted = stilted or rate > ALLOWED
        if lists or rate > ALLOWED:
            print(f"{place}: {rate:.1f} stilted phrases per 1,000 words, at most {ALLOWED:g}")
    return int(stilted)


def _rate(texts: list[Text]) -> float:
    words = sum(len(WORD.findall(text.words)) for text in texts)
    return 1000.0 * sum(len(STILTED.findall(text.words)) for text in texts) / max(1, words)


def _print_phrases(texts: list[Text]) -> None:
    found = Counter(
        (match[0].lower(), str(text.path.relative_to(ROOT)))
        for text in texts
        for match in STILTED.finditer(text.words)
    )
    for (phrase, path), times in sorted(found.items()):
        print(f"{path}: {phrase}{f' × {times}' if times > 1 else ''}")


def _docs() -> Iterator[Text]:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if "reference" not in path.parts:
            yield Text("docs", path, MARKUP.sub(" ", path.read_text(encoding="utf-8")))


def _pages() -> Iterator[Text]:
    for path in sorted(SOURCE.rglob("*.html")):
        yield Text("pages", path, MARKUP.sub(" ", path.read_text(encoding="utf-8")))


def _source() -> Iterator[Text]:
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        literals = list(_literals(ast.parse(source)))
        comments = re.findall(r"^\s*# (?!noqa|type:)(.*)$", source, re.MULTILINE)
        docs = [literal.text for literal in literals if literal.is_docstring]
        yield Text("docstrings and comments", path, "\n".join([*docs, *comments]))
        messages = [literal.text for literal in literals if literal.is_message]
        yield Text("messages", path, "\n".join(messages))


class _Literal(NamedTuple):
    text: str
    is_docstring: bool

    @property
    def is_message(self) -> bool:
        """Tell whether it looks like a sentence."""
        return not self.is_docstring and len(WORD.findall(self.text)) >= 4 and "SELECT" not in self.text


def _literals(tree: ast.AST) -> Iterator[_Literal]:
    expressions = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _Literal(node.value, any(node is expression for expression in expressions))


if __name__ == "__main__":
    sys.exit(main())
