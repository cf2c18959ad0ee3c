"""What the site needs beyond Markdown: links to files of the repository, drawings like the theme."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".sql": "sql"}

_LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)((?:#[^)\s]*)?\))")
_DRAWING = re.compile(r'<img alt="([^"]*)" src="[^"]*/(states-of-a-[\w-]+\.svg)"[^>]*>')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A page for each file outside of the documentation that a page links to: its text."""
    for page in sorted(DOCS.rglob("*.md")):
        for _, path, _ in _LINK.findall(page.read_text()):
            target = _outside(page.relative_to(DOCS), path)
            if target is not None and files.get_file_from_path(_page_of(target)) is None:
                files.append(File.generated(config, _page_of(target), content=_shown(target)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    here = Path(page.file.src_uri)

    def turned(found: re.Match[str]) -> str:
        target = _outside(here, found[2])
        if target is None:
            return found[0]
        return found[1] + posixpath.relpath(_page_of(target), here.parent.as_posix() or ".") + ")"

    return _LINK.sub(turned, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Drawings stand in the page itself, so that they have the colors of the theme."""
    return _DRAWING.sub(_drawn, html)


def _drawn(found: re.Match[str]) -> str:
    text = (DOCS / "images" / found[2]).read_text()
    return f'<div class="drawing">{re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)}</div>'


def _outside(page: Path, link: str) -> Path | None:
    """The file of the repository that a page links to, if it is not a part of the documentation."""
    target = (DOCS / page.parent / link).resolve()
    if target.is_relative_to(DOCS) or not target.is_relative_to(ROOT):
        return None
    return target.relative_to(ROOT)


def _page_of(file: Path) -> str:
    return f"files/{file.as_posix()}" + ("" if file.suffix == ".md" else ".md")


def _shown(file: Path) -> str:
    path = ROOT / file
    if path.is_dir():
        listed = "\n".join(
            f"- `{each.relative_to(ROOT)}`" for each in sorted(path.rglob("*")) if each.is_file()
        )
        return f"# {file}\n\n{listed}\n"
    text = path.read_text()
    if file.suffix == ".md":
        return re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)  # its links lead elsewhere from here
    return f"# {file}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{text.rstrip()}\n````\n"
