"""The guide in a terminal: finished steps have a mark, and no line is wider than the terminal."""

from __future__ import annotations

import io

from redrive.demo.display import DemoAddresses, DisplayText
from redrive.demo.guide import TITLES, GuideProgress
from redrive.demo.screen import DemoScreen

FOLDER = "/private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/redrive-demo-abcdefgh"
ADDRESSES = DemoAddresses(
    "http://127.0.0.1:8400",
    f"http://127.0.0.1:8400/app/sign-in#{'x' * 43}",
    "http://127.0.0.1:8401",
    f". {FOLDER}/env.sh",
    f"echo 'NO = 3' >> {FOLDER}/zones.toml",
)
FAILED = GuideProgress(group="0123456789ab", fingerprint="fp", letter="0" * 32, live=12)
PLANNED = FAILED._replace(fixed=True, operation="1" * 32)
STATES = (
    GuideProgress(),
    FAILED,
    FAILED._replace(fixed=True),
    PLANNED,
    PLANNED._replace(started=True),
    PLANNED._replace(started=True, live=0, resolved=True),
)


def lines(progress: GuideProgress, *seen: int) -> list[str]:
    text = DisplayText(DemoScreen(io.StringIO()))
    guide = text.guide(progress, progress.done(frozenset(seen)), ADDRESSES)
    return [*text.head(ADDRESSES), *guide]


def marked(shown: list[str]) -> list[str]:
    """Return the titles with a mark."""
    return [line.split("  ")[1] for line in shown if line[1:2] not in ("", " ") and line.endswith(TITLES)]


def test_only_steps_that_are_done_have_a_mark() -> None:
    found = [marked(lines(progress)) for progress in STATES]
    assert found == [[], [], list(TITLES[:3]), list(TITLES[:3]), list(TITLES[:4]), list(TITLES)]
    assert marked(lines(FAILED, 0)) == [TITLES[0]]
    assert "→" not in "".join(line for progress in STATES for line in lines(progress))


def test_the_next_step_has_an_explanation_and_a_command() -> None:
    shown = lines(FAILED)
    for title, command in (
        (TITLES[0], "redrive dlq groups"),
        (TITLES[1], f"redrive dlq view {FAILED.letter}"),
        (TITLES[2], ADDRESSES.fix),
    ):
        [at] = [number for number, line in enumerate(shown) if line.endswith(title)]
        assert shown[at + 1].startswith("      ")
        assert shown[at + 2] == f"      {command}"
    assert not [line for line in shown if "redrive replay" in line]


def test_every_line_fits_on_a_terminal_of_120_columns() -> None:
    assert max(len(line) for progress in STATES for line in lines(progress)) <= 120
