"""What an editor shows: hovers, signatures and completions, from a real language server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from tests.cases import loop_over

from redrive import Redrive

MAX_SECONDS = 300.0
"""A guard against hanging, for the whole module."""

SHOP = '''\
from dataclasses import dataclass

from redrive import Context, Redrive

app = Redrive("sqlite://:memory:")


@dataclass
class Receipt:
    order: int


@app.task(timeout=30)
async def charge(context: Context, order: int, item: str = "tea") -> Receipt:
    """Charge the card of the customer."""
    return Receipt(order)


@app.task
def label(order: int) -> str:
    return str(order)


async def main() -> None:
    run = await charge.start(7, item="cake")
    receipt = await run.result()
    waiting = app.sync.start(label, receipt.order)
    text = waiting.result()
    print(text)
'''


class LanguageServer:
    """A language server with one file open. It is asked one question at a time."""

    def __init__(self, process: subprocess.Popen[bytes], file: Path) -> None:
        self._process = process
        self._document = {"uri": file.as_uri()}
        self._questions = 0
        self.ask("initialize", {"processId": None, "rootUri": file.parent.as_uri(), "capabilities": {}})
        self._send(method="initialized", params={})
        opened = {**self._document, "languageId": "python", "version": 1, "text": file.read_text()}
        self._send(method="textDocument/didOpen", params={"textDocument": opened})

    def hover(self, place: str) -> str:
        """Return the text that an editor shows at the cursor, on one line."""
        found = self.ask_about(place, "hover")
        return " ".join(found["contents"]["value"].split())

    def ask_about(self, place: str, question: str) -> Any:
        """Ask about a place in the file: a unique piece of text, with | as the cursor."""
        before, _, after = place.partition("|")
        assert SHOP.count(before + after) == 1, place
        lines = SHOP[: SHOP.index(before + after) + len(before)].splitlines()
        position = {"line": len(lines) - 1, "character": len(lines[-1])}
        return self.ask(f"textDocument/{question}", {"textDocument": self._document, "position": position})

    def ask(self, method: str, params: object) -> Any:
        self._questions += 1
        self._send(id=self._questions, method=method, params=params)
        while "method" in (answer := self._receive()):
            assert "id" not in answer, f"the server asks, instead of telling: {answer}"
        assert answer["id"] == self._questions, answer
        assert "result" in answer, answer
        return answer["result"]

    def _send(self, **message: object) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        headers = dict[str, str]()
        while line := self._process.stdout.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value
        assert headers, "the language server has ended, or was stopped after a long time"
        message: dict[str, Any] = json.loads(self._process.stdout.read(int(headers["content-length"])))
        return message


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    file = tmp_path_factory.mktemp("shop") / "shop.py"
    file.write_text(SHOP)
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"  # it uses the first Python on the path
    with subprocess.Popen(
        [programs / "basedpyright-langserver", "--stdio"],
        cwd=file.parent,
        env={**os.environ, "PATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        stop = partial(os.killpg, process.pid, signal.SIGKILL)  # the program starts Node.js separately
        guard = Timer(MAX_SECONDS, stop)
        guard.start()
        try:
            yield LanguageServer(process, file)
        finally:
            guard.cancel()
            stop()


@loop_over(
    ("place", "shown"),
    [
        (
            "async def char|ge",
            '(function) async def charge( context: Context, order: int, item: str = "tea" ) -> Receipt',
        ),
        ("await char|ge.start", 'TaskFunction[(order: int, item: str = "tea"), Receipt,'),
        ("await char|ge.start", "Charge the card of the customer."),
        (
            "charge.sta|rt(",
            'start( order: int, item: str = "tea" ) -> CoroutineType[Any, Any, RunHandle[Receipt]]',
        ),
        ("charge.sta|rt(", "Start a run with these arguments"),
        ("ru|n = await", "run: RunHandle[Receipt]"),
        ("run.res|ult()", "-> CoroutineType[Any, Any, Receipt]"),
        ("rece|ipt = await", "receipt: Receipt"),
        ("app.sync.sta|rt(", "-> SyncRunHandle["),
        ("wait|ing = app", "waiting: SyncRunHandle[str]"),
        ("waiting.res|ult()", "result(timeout: Seconds | None = None) -> str"),
        ("te|xt = waiting", "text: str"),
    ],
)
def test_a_hover_shows_the_types(server: LanguageServer, place: str, shown: str) -> None:
    assert shown in server.hover(place)


def test_a_call_shows_the_parameters_of_its_task(server: LanguageServer) -> None:
    [signature] = server.ask_about("charge.start(|7", "signatureHelp")["signatures"]
    assert [parameter["label"] for parameter in signature["parameters"]] == [
        "order: int",
        'item: str = "tea"',
    ]


def test_completion_lists_public_names_first(server: LanguageServer) -> None:
    """Private names come last, as for every class: language servers do not hide them."""
    items = server.ask_about("app.|sync", "completion")["items"]
    names = [item["label"] for item in sorted(items, key=lambda item: str(item["sortText"]))]
    public = {name for name in dir(Redrive) if not name.startswith("_")}
    assert set(names[: len(public)]) == public
    assert [name for name in names[len(public) :] if not name.startswith("_")] == []
