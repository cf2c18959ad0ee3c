"""A page that a reader follows in order: it pastes code, types commands, changes files and shows the output.

    python   the first block is the file that its first line names; other tests run the others
    diff     a change of that file
    sh       commands for a real terminal; `redrive worker` and `redrive serve` each get another one
    text     the output of the block before it: ids, times and widths may differ

Commands that only read may run several times, because a worker may still be executing. The answer to every
question is yes. `python -m tests.docs.story docs/start.md` updates the output on a page.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import NamedTuple

SECONDS = 60.0
COLUMNS = 90
HOME = "/home/ana/shop"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ID = re.compile(r"\b[0-9a-f]{32}\b")
_CUT = re.compile(r"\b[0-9a-f]{4,}…|\b[0-9a-f]{12}\b")
_CHANGING = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?( UTC)?"), "(time)"),
    (re.compile(r"\b(\d+(\.\d+)? (ms|s|min|h|d)( ago)?|just now)(?=\s|$|[,;.)])"), "(age)"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?"), "(time)"),
    (re.compile(r"(?<= )/[^\s:]+/"), "(folder)/"),
    (re.compile(r"[ \t]+"), " "),
)


class Block(NamedTuple):
    kind: str
    text: str


class Place:
    """A directory with terminals in it, as a reader has it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        home = str(Path(sys.executable).parent)
        keep = {name: value for name, value in os.environ.items() if not name.startswith("REDRIVE_")}
        self._environment = {
            **keep,
            "PATH": f"{home}{os.pathsep}{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(directory / "config"),
            "COLUMNS": str(COLUMNS),
            "TERM": "dumb",
            "NO_COLOR": "1",
            "REDRIVE_SERVER_PORT": "0",
        }

    def type(self, text: str) -> str:
        """Type a command and return what the terminal shows until it ends, stdout and stderr."""
        process, master = self._started(text)
        shown = _read(master)
        process.wait(SECONDS)
        os.close(master)
        return shown

    def keep(self, name: str, text: str) -> str:
        """Start a command, replacing the one of this name, and return its first output."""
        self.end(name)
        process, master = self._started(f"exec {text}")
        self._running[name] = process
        shown = os.read(master, 4096).decode()
        Thread(target=_drain, args=(master,), daemon=True).start()
        return shown

    def end(self, name: str) -> None:
        """Stop a command with Ctrl-C."""
        process = self._running.pop(name, None)
        if process is not None:
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) in (0, 130), f"{name} has ended with {process.returncode}"

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def _started(self, text: str) -> tuple[subprocess.Popen[bytes], int]:
        master, slave = pty.openpty()
        process = subprocess.Popen(
            ["bash", "-e", "-c", text],
            cwd=self.directory,
            env=self._environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        return process, master


class Story:
    def __init__(self, page: Path, place: Place, timeout: float = SECONDS) -> None:
        self._retrier = timeout
        self.blocks = [Block(*found) for found in _BLOCK.findall(page.read_text())]
        self.place = place
        self.ids: dict[str, str] = {}
        self.file = ""

    def play(self) -> Iterator[tuple[str, str, str]]:
        """Yield what the reader types, what the page shows, and what the terminal really showed."""
        for number, block in enumerate(self.blocks):
            shown = self._after(number)
            if block.kind == "python" and not self.file:
                self.file = block.text.split(":", 1)[0].strip('"')
                (self.place.directory / self.file).write_text(block.text)
            elif block.kind == "diff":
                self._change(block.text)
            elif block.kind == "sh" and "pip install" not in block.text:
                yield block.text, shown, self._typed(block.text, shown)

    def as_on_page(self, really: str) -> str:
        """Write the output as the page would, with its ids and home directory."""
        for shown, real in self.ids.items():
            really = really.replace(real, shown)
        really = really.replace("\r", "").replace(str(self.place.directory), HOME)
        return "\n".join(line.rstrip() for line in really.strip().splitlines()) + "\n"

    def _after(self, number: int) -> str:
        following = self.blocks[number + 1 : number + 2]
        return following[0].text if following and following[0].kind == "text" else ""

    def _change(self, text: str) -> None:
        path = self.place.directory / self.file
        before = "".join(line[1:] for line in text.splitlines(True) if line.startswith("-"))
        after = "".join(line[1:] for line in text.splitlines(True) if line.startswith("+"))
        assert before in path.read_text(), f"{self.file} does not have {before!r}"
        path.write_text(path.read_text().replace(before, after))

    def _typed(self, text: str, shown: str) -> str:
        text = _ID.sub(lambda found: self.ids.get(found[0], found[0]), text)
        if found := re.match(r"redrive (worker|serve)\b", text):
            return self.place.keep(found[1], text)
        until = time.monotonic() + self._retrier
        answer = self.place.type(text)
        while not _agree(answer, shown) and _is_question(text) and time.monotonic() < until:
            time.sleep(0.2)
            answer = self.place.type(text)
        self._learn(shown, answer)
        return answer

    def _learn(self, shown: str, answer: str) -> None:
        """Learn which real id corresponds to which id of the page."""
        for told, real in zip(_ID.findall(shown), _ID.findall(answer), strict=False):
            self.ids.setdefault(told, real)


def comparable(text: str, other: str) -> tuple[str, str]:
    """Return both texts without ids, times and widths.

    A longer age leaves less room for the last column, so compare a truncated line up to its cut.
    """
    lines = list(zip_longest(_masked(text), _masked(other), fillvalue=""))
    ends = [min((_cut(line) for line in pair if line.endswith("…")), default=None) for pair in lines]
    return (
        "\n".join(line[:end].strip() for (line, _), end in zip(lines, ends, strict=True)),
        "\n".join(line[:end].strip() for (_, line), end in zip(lines, ends, strict=True)),
    )


def _agree(text: str, other: str) -> bool:
    one, two = comparable(text, other)
    return one == two


def _masked(text: str) -> list[str]:
    text = _CUT.sub("(cut)", _ID.sub("(id)", text.replace("\r", "")))
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return [line.strip() for line in text.strip().splitlines()]


def _cut(line: str) -> int:
    """Return where the truncated last word of a line starts."""
    return line.rfind(" ") + 1


def _is_question(text: str) -> bool:
    return re.search(r"\b(list|view|status|groups|stats)\b", text) is not None


def _drain(master: int) -> None:
    """Read and drop the output, so that the process never waits for a reader."""
    _read(master)
    os.close(master)


def _read(master: int) -> str:
    """Read all output; answer questions with yes."""
    shown = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # Linux reports the other end's exit like this
            piece = b""
        if not piece:
            return shown.decode()
        shown += piece
        if shown.endswith(b"[y/N]: "):
            os.write(master, b"y\n")


def rewritten(page: Path) -> str:
    """Return the page with the output of now."""
    text = page.read_text()
    with TemporaryDirectory() as directory:
        place = Place(Path(directory))
        try:
            story = Story(page, place, timeout=5.0)
            for typed, shown, really in story.play():
                if shown:  # all of them, so that their times are consistent
                    told = story.as_on_page(really)
                    text = text.replace(
                        f"{typed}```\n\n```text\n{shown}", f"{typed}```\n\n```text\n{told}", 1
                    )
        finally:
            place.close()
    return text


if __name__ == "__main__":
    for _page in map(Path, sys.argv[1:]):
        _page.write_text(rewritten(_page))
