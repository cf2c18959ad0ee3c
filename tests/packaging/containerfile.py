"""Parses a Containerfile into its stages and their instructions."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """An instruction. keyword: FROM, RUN, …; text: the rest, on one line."""

    keyword: str
    text: str

    @property
    def words(self) -> list[str]:
        """Return the words of the text, in JSON or shell form, without options."""
        parts = json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)
        return [each for each in parts if not each.startswith("--")]


Stage = list[Instruction]


def stages(path: Path) -> list[Stage]:
    """Return the stages. Instructions before the first FROM belong to no stage."""
    found: list[Stage] = []
    for instruction in instructions(path.read_text()):
        if instruction.keyword == "FROM":
            found.append([])
        if found:
            found[-1].append(instruction)
    return found


def instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines()]


def last(stage: Stage, keyword: str) -> Instruction:
    return [each for each in stage if each.keyword == keyword][-1]


def every(stage: Stage, keyword: str) -> list[Instruction]:
    return [each for each in stage if each.keyword == keyword]


def environment(stage: Stage) -> dict[str, str]:
    pairs = [word.partition("=")[::2] for each in every(stage, "ENV") for word in each.words]
    return dict(pairs)
