"""The commands on a page work when they are typed into two terminals, and print what the page shows.

The block with `redrive serve` is the first terminal: a real server. Blocks followed by JSON are typed into
the second one, which stays open, and must print that JSON. Requests that only read are repeated until they
do: a worker may still be executing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "guides" / "serving.md"]
SECONDS = 60.0
END = "that was all"

_COMMAND = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND_WITH_ANSWER = re.compile(r"^```sh\n([^`]*)^```\n\n```json\n([^`]*)^```$", re.MULTILINE)
_ID = re.compile(r"[0-9a-f]{32}")


class Terminal:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def type(self, text: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{text}\necho; echo {END}\n")
        self._process.stdin.flush()
        lines = iter(self._process.stdout.readline, "")
        return "".join(line for line in _until_end(lines)).strip()


def _until_end(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line.strip() == END:
            return
        yield line


@contextmanager
def terminal(directory: Path) -> Iterator[Terminal]:
    with _process(["bash"], directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Terminal(process)


@contextmanager
def serving(command: str, directory: Path) -> Iterator[int]:
    """Serve, and yield the port. The server must exit with 0 when it is stopped."""
    typed = ["bash", "-c", f"export REDRIVE_SERVER_PORT=0\nexec {command}"]
    with _process(typed, directory, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        told = (re.search(r"Redrive is at .*:(\d+)$", line.strip()) for line in process.stderr)
        yield next(int(found[1]) for found in told if found)
        process.terminate()
        assert process.wait(SECONDS) == 0


@contextmanager
def _process(command: list[str], directory: Path, **streams: int) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, cwd=directory, text=True, **streams) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.kill()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_to_type_work(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    text = page.read_text().replace(".venv/bin/redrive", f"{sys.executable} -m redrive.cli")
    [command] = [command for command in _COMMAND.findall(text) if "-m redrive.cli serve" in command]
    answered = _COMMAND_WITH_ANSWER.findall(text)
    assert answered
    with serving(command.strip(), tmp_path) as port, terminal(tmp_path) as second:
        for typed, shown in answered:
            _compare(second, typed.replace("localhost:8400", f"localhost:{port}"), shown)


def _compare(second: Terminal, typed: str, shown: str) -> None:
    until = time.monotonic() + SECONDS
    answer = second.type(typed)
    while _masked(answer) != _masked(shown) and _only_reads(typed) and time.monotonic() < until:
        answer = second.type(typed)
    assert _masked(answer) == _masked(shown)


def _only_reads(typed: str) -> bool:
    return typed.startswith("curl") and " -d " not in typed and " -X " not in typed


def _masked(text: str) -> str:
    return _ID.sub("…", text).strip()
