"""The style sheets of the pages: four sizes of text and three weights, in every file."""

from __future__ import annotations

import re
from importlib.resources import files

STATIC = files("redrive.server.admin") / "static"
SIZES = {"tiny", "small", "title", "figure"}
WEIGHTS = {"400", "500", "600"}

_COMMENT = re.compile(r"/\*.*?\*/|@font-face \{.*?\}", re.DOTALL)
_SIZE = re.compile(r"(?<!-)font-size: ([^;}]+)|(?<!-)font: (?!inherit)([^/;}]+)")


def _rules() -> dict[str, str]:
    sheets = [file for file in STATIC.iterdir() if file.name.endswith(".css")]
    return {file.name: _COMMENT.sub("", file.read_text()) for file in sheets}


def test_text_has_one_of_four_sizes() -> None:
    rules = _rules()
    assert set(re.findall(r"--(\w+): [\d.]+rem", rules["tokens.css"])) == SIZES
    known = {f"var(--{size})" for size in SIZES}
    found = [
        (name, (size or short).strip()) for name, text in rules.items() for size, short in _SIZE.findall(text)
    ]
    assert len(found) > 50
    assert [each for each in found if each[1] not in known] == []


def test_text_has_one_of_three_weights() -> None:
    found = [
        (name, each) for name, text in _rules().items() for each in re.findall(r"font-weight: (\w+)", text)
    ]
    assert [each for each in found if each[1] not in WEIGHTS] == []
