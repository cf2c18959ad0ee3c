"""Commands against a broken or hostile server: they end, name the problem, and show no key."""

from __future__ import annotations

import gzip
import sys
from itertools import chain
from urllib.parse import unquote

import pytest
from tests.cli.conftest import Command
from tests.cli.strange import Strange

from redrive.cli import http_transport as over_http
from redrive.cli.outcome import CODES, EXITS, Exit, exit_of

NO_JSON = "did not return JSON"
STRANGE = "returned an unexpected response"


@pytest.mark.parametrize(
    ("status", "body", "headers", "told"),
    [
        (200, b"<html>sign in</html>", (), NO_JSON),
        (200, b"", (), NO_JSON),
        (200, b'{"items": ["\xff"]}', (), NO_JSON),
        (200, b'{"items": [NaN], "next_cursor": null}', (), NO_JSON),
        (200, b"[" * 100_000, (), NO_JSON),
        (200, b'{"items": [' + b"9" * 5_000 + b"]}", (), NO_JSON),
        (200, [1, 2], (), STRANGE),
        (200, {}, (), STRANGE),
        (200, {"items": ["a"], "next_cursor": None}, (), STRANGE),
        (302, b"", (), NO_JSON),
        (302, b"", ("Location: javascript:alert(1)",), "redirects to javascript:alert(1)"),
        (
            302,
            b"",
            ("Location: http://127.0.0.1:1/elsewhere",),
            "redirects to http://127.0.0.1:1/elsewhere",
        ),
        (502, b"<html>", (), "returned status 502"),
        (400, [], (), "returned status 400"),
    ],
)
def test_an_invalid_response(
    redrive: Command,
    strange: Strange,
    status: int,
    body: bytes | object,
    headers: tuple[str, ...],
    told: str,
) -> None:
    strange.says(status, body, *headers)
    ended = redrive("key", "list")
    assert ended.code in (Exit.ERROR, Exit.USAGE)
    assert told in ended.err
    assert "unexpected error" not in ended.err
    assert "canary" not in ended.err


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_breaks_off(redrive: Command, strange: Strange, status: int) -> None:
    strange.answer = f'HTTP/1.1 {status} X\r\nContent-Length: 1000\r\n\r\n{{"items": ['.encode()
    ended = redrive("key", "list")
    assert (ended.code, "without sending complete message body" in ended.err) == (1, True)
    done = redrive("org", "create", "acme")
    assert "it may have succeeded" in done.err


def test_an_answer_without_an_end(
    redrive: Command,
    strange: Strange,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(over_http, "MAX_BYTES", 1_000_000)
    strange.answer = b"HTTP/1.1 200 X\r\n\r\n" + b" " * 2_000_000
    assert "its response is larger than 1,000,000 bytes" in redrive("key", "list").err


def test_a_silent_server(
    redrive: Command,
    strange: Strange,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 9: timed out."""
    monkeypatch.setattr(over_http, "MAX_READING_SECONDS", -1.0)
    strange.says(200, {})
    assert redrive("key", "list").code == Exit.TIMED_OUT


def test_the_same_page_forever(redrive: Command, strange: Strange) -> None:
    strange.says(200, {"items": [], "next_cursor": "again"})
    ended = redrive("key", "list", "-o", "ndjson")
    assert (ended.code, "the same page twice" in ended.err, len(strange.requests)) == (1, True, 2)


def test_nothing_steers_the_terminal(redrive: Command, strange: Strange) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[8m\u202e"
    letter = {"id": evil, "step": evil, "state": evil, "status": evil}
    strange.says(200, {**letter, "number": 1, "capped": False, "ids": [evil]})
    for ended in (
        redrive("dlq", "resolve", "x", "--dry-run"),
        redrive("dlq", "resolve", "--query", "is:open", "--yes"),
    ):
        assert ended.code == 0
        assert "\\x1b" in ended.out + ended.err
        assert not set("\x1b\x07\u202e") & set(ended.out + ended.err)


@pytest.mark.parametrize("key", ["rdk_canary\nmore", "rdk_canary…", "rdk_canary two", "rdk_canary\x1b"])
def test_a_key_that_is_none_is_not_shown(
    redrive: Command,
    strange: Strange,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
) -> None:
    monkeypatch.setenv("REDRIVE_API_KEY", key)
    ended = redrive("--debug", "key", "list")
    assert (ended.code, "canary" in ended.err, strange.requests) == (2, False, [])


def test_a_key_does_not_take_the_way_over_a_proxy(
    redrive: Command,
    strange: Strange,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The key may go to this machine in plain text, but no further."""
    monkeypatch.setenv("http_proxy", strange.url)
    ended = redrive("key", "list", "--server", "http://127.0.0.1:1")
    assert (ended.code, strange.requests) == (1, [])


def test_a_proxy_that_cannot_be_used(redrive: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "gopher://127.0.0.1:1")
    ended = redrive("key", "list", "--server", "https://redrive.example.com")
    assert (ended.code, "the proxy set in the environment" in ended.err) == (1, True)


@pytest.mark.parametrize("name", [".", "..", "a/b", "ä?#"])
def test_a_name_stays_one_part_of_the_path(redrive: Command, strange: Strange, name: str) -> None:
    strange.says(404, {"detail": "there is no such run"})
    assert redrive("run", "view", name).code == Exit.NOT_FOUND
    path = strange.requests[0].split()[1]
    assert path.startswith("/api/v1/runs/")
    assert unquote(path.removeprefix("/api/v1/runs/")) == name


def test_an_answer_is_not_unfolded(redrive: Command, strange: Strange) -> None:
    """A few compressed bytes could expand to gigabytes."""
    strange.says(200, gzip.compress(b'{"items": [], "next_cursor": null}'), "Content-Encoding: gzip")
    assert NO_JSON in redrive("key", "list").err
    assert "accept-encoding: identity" in strange.requests[0].lower()


def test_without_the_library_for_it(
    redrive: Command, strange: Strange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    ended = redrive("key", "list")
    assert (ended.code, "pip install 'redrive[cli]'" in ended.err, strange.requests) == (1, True, [])


def test_here_and_there_the_same_error_ends_the_same_way() -> None:
    """Compare the exit codes of an engine's error and of the API's response to it."""
    from redrive.cli.client import ApiError
    from redrive.server.problem import problem_of

    compared = 0
    for kind in chain.from_iterable(EXITS.values()):
        error = kind.__new__(kind)
        vars(error).update(changes=(), number=0, run_id="", max_size=1, retry_after=1.0)
        problem = problem_of(error)
        if problem is None:
            continue  # the API never sends it
        compared += 1
        there = ApiError(problem.status_code, {"code": problem.code})
        assert exit_of(there) == exit_of(error), kind
    assert compared >= 10
    assert CODES["too_slow"] is Exit.TIMED_OUT
