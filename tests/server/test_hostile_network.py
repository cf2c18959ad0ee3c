"""Hostile clients on the wire, against a real server in a separate process.

No client stops the others, and stopping the server loses nothing (limits, graceful shutdown).
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.served_process import Served, json_of, request, served, status_of

from redrive.server.limits import BodyLimits
from redrive.server.problem import ProblemError

HEALTH = request("GET", "/healthz")
SESSION = request("GET", "/api/v1/session")
POST = b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\n"
SMUGGLED = b"GET /api/v1/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
MALFORMED = {
    "both lengths": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "both the other way round": POST
    + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"
    + SMUGGLED,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 60\r\n\r\n" + SMUGGLED,
    "the same length twice": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "two lengths in one": POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "a length with a sign": POST + b"Content-Length: +2\r\n\r\n{}",
    "a length below nothing": POST + b"Content-Length: -2\r\n\r\n{}",
    "a length in hex": POST + b"Content-Length: 0x2\r\n\r\n{}",
    "a length beyond counting": POST + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked, and then not": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a folded header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: a\r\n X-B: b\r\n\r\n",
    "bare line feeds": b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
    "a bare carriage return": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: a\rX-B: b\r\n\r\n",
    "NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: a\x00b\r\n\r\n",
    "a chunk without a length": POST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
    "a chunk beyond counting": POST + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n{}\r\n",
    "bytes in a path": b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no path": b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + b"\x00" * 50,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a tunnel": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("patient"), server_key_rate=100_000) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that waits half a second for its clients."""
    with served(tmp_path_factory.mktemp("hasty"), client_seconds=0.5, keep_alive=1) as running:
        yield running


@pytest.fixture(scope="module")
def key(server: Served) -> str:
    return server.key("client")


@pytest.mark.parametrize("name", MALFORMED)
def test_ambiguous_requests_are_rejected(server: Served, name: str) -> None:
    """Request smuggling: the server closes the connection, so no rest of it is read as another request."""
    with server.connected() as client:
        client.say(MALFORMED[name])
        told = client.rest()
    assert told.startswith(b"HTTP/1.1 400 "), told
    assert told.count(b"HTTP/1.1 ") == 1
    assert b"smuggled" not in told


def test_trailers_after_a_body_are_not_headers(server: Served, key: str) -> None:
    """A proxy that checks headers has not seen it, and a credential must precede the body."""
    trailer = f"0\r\nAuthorization: Bearer {key}\r\nX-Request-Id: from-a-trailer\r\n\r\n".encode()
    head = b"POST /api/v1/organizations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    told = server.asked(head + b"2\r\n{}\r\n" + trailer)
    assert status_of(told) == 401
    assert b"from-a-trailer" not in told


def test_requests_in_a_row_are_answered_in_order(server: Served, key: str) -> None:
    names = [f"request-{number}" for number in range(30)]
    texts = [request("GET", "/api/v1/session", key, headers={"X-Request-Id": name}) for name in names]
    with server.connected() as client:
        client.say(b"".join(texts))
        answers = [client.answer() for _ in names]
    assert [name.encode() in answer for name, answer in zip(names, answers, strict=True)] == [True] * 30


@pytest.mark.parametrize(
    "begun", [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"GET /", b"X", POST + b"X"]
)
def test_an_endless_head_is_cut_off_and_stops_no_other_client(server: Served, begun: bytes) -> None:
    """The parser buffers a whole header; collecting megabytes of one takes it minutes."""
    before = server.megabytes
    with server.connected() as endless:
        endless.say(begun)
        sent = 0
        while sent < 30 and endless.try_to_say(b"a" * 1_000_000):
            sent += 1
        assert sent < 30  # buffers between client and server hold a few megabytes
    assert status_of(server.asked(HEALTH)) == 200
    assert server.megabytes < before + 50


def test_a_trailer_without_an_end_is_cut_off(server: Served) -> None:
    with server.connected() as endless:
        endless.say(
            b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: "
        )
        assert not all(endless.try_to_say(b"a" * 1_000_000) for _ in range(200))


def test_many_headers_are_refused(server: Served) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 20_000 + b"\r\n"
    with server.connected() as client:
        client.try_to_say(head)
        assert b"200 OK" not in client.rest()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: loc",
        HEALTH,
        HEALTH + b"\r\n",
        HEALTH + b"GET /hea",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: b",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nxxx",
    ],
)
def test_a_client_that_falls_silent_is_cut_off(hasty: Served, said: bytes) -> None:
    """At every point of a request; a byte after a response does not extend the limit of the next head."""
    with hasty.connected() as silent:
        silent.say(said)
        silent.rest()


@pytest.mark.parametrize(
    "early", [b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", HEALTH]
)
def test_a_client_that_sends_slowly_after_an_answer_is_cut_off(hasty: Served, early: bytes) -> None:
    with hasty.connected() as slow:
        slow.say(early)
        slow.answer()
        deadline = time.monotonic() + 20.0
        while slow.try_to_say(b"\r"):
            time.sleep(0.05)  # the attack sends one byte in this time
            assert time.monotonic() < deadline


def test_a_client_that_does_not_read_is_cut_off(hasty: Served) -> None:
    before = hasty.sockets
    with hasty.connected(narrow=True) as deaf:
        deaf.say(request("GET", "/api/openapi.json") * 20)
        _until(lambda: hasty.sockets > before)
        _until(lambda: hasty.sockets <= before)
        assert deaf.rest().count(b"HTTP/1.1 200") < 20


def test_five_hundred_silent_clients_do_not_block_others(server: Served) -> None:
    silent = [server.connected() for _ in range(500)]
    try:
        for number, each in enumerate(silent):
            each.say(
                (
                    b"",
                    b"GET ",
                    b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
                )[number % 3]
            )
        for _ in range(20):
            assert status_of(server.asked(HEALTH)) == 200
    finally:
        for each in silent:
            each.socket.close()


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Served) -> None:
    told = server.asked(POST + b"Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n")
    assert status_of(told) == 413
    assert b"100 Continue" not in told


def test_a_body_without_a_length_is_counted_while_it_comes(server: Served, key: str) -> None:
    before = server.megabytes
    with server.connected() as client:
        headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
        client.say(request("POST", "/api/v1/runs", key, headers=headers))
        sent = 0
        while sent < 300 and client.try_to_say(b"100000\r\n" + b" " * 0x100000 + b"\r\n"):
            sent += 1
        assert sent < 300
    assert server.megabytes < before + 50


@pytest.mark.parametrize("cut", [10, 60, 150, -1])
def test_a_client_that_disconnects_in_the_middle_has_started_nothing(
    server: Served, key: str, cut: int
) -> None:
    whole = request("POST", "/api/v1/runs", key, {"work": "greet", "tags": ["cut off"]})
    for _ in range(5):
        with server.connected() as client:
            client.say(whole[:cut])
    found = server.asked(request("GET", "/api/v1/runs?q=tag:%22cut%20off%22", key))
    assert json_of(found)["items"] == []
    assert "Traceback" not in server.log


def test_streams_have_a_limit_and_places_are_given_back(server: Served, key: str) -> None:
    """Also if the client pipelined more requests behind the stream and disconnected without a word."""
    listening = request("GET", "/api/v1/events", key)
    clients = [server.connected() for _ in range(11)]
    for each in clients[:10]:
        each.say(listening)
        each.wait_for(b"retry:")
        each.say(HEALTH)
    clients[10].say(listening)
    assert status_of(clients[10].answer()) == 429
    for each in clients:
        each.socket.close()
    numbers = itertools.count(1)

    def has_place() -> bool:
        """The server writes to a stream without a reader, and so learns that its client has gone."""
        server.asked(request("POST", "/api/v1/organizations", key, {"name": f"org-{next(numbers)}"}))
        return _stream_status(server, listening) == 200

    _until(has_place)


def _stream_status(server: Served, listening: bytes) -> int:
    with server.connected() as client:
        client.say(listening)
        client.wait_for(b"\r\n\r\n")
        return status_of(client._rest)


def _until(holds: Any) -> None:
    """Wait for a condition that the server fulfills on its own, at a time that the test cannot know."""
    deadline = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_stopping_server_finishes_requests_in_progress(tmp_path: Path) -> None:
    """It completes requests in flight, ends streams, doesn't wait for idle clients, and exits with 0."""
    with served(tmp_path, client_seconds=60.0, server_drain_sec=5) as server:
        key = server.key("client")
        stream, halfway, idle = (server.connected() for _ in range(3))
        stream.say(request("GET", "/api/v1/events", key))
        stream.wait_for(b"retry:")
        idle.say(HEALTH)
        idle.answer()
        whole = request("POST", "/api/v1/runs", key, {"work": "greet"}, {"Expect": "100-continue"})
        head, body = whole.split(b"\r\n\r\n")
        halfway.say(head + b"\r\n\r\n" + body[:5])
        halfway.wait_for(b"100 Continue\r\n\r\n")  # the application is executing the request
        server.process.send_signal(signal.SIGTERM)
        assert stream.rest().endswith(b"0\r\n\r\n")  # the regular end of a chunked body
        halfway._rest = b""
        halfway.say(body[5:])
        told = halfway.answer()
        assert status_of(told) == 202
        assert idle.rest() == b""
        assert server.ended() == 0
        server.start()
        run = json_of(told)["id"]
        assert status_of(server.asked(request("GET", f"/api/v1/runs/{run}", key))) == 200
        assert server.stop() == 0


def test_a_client_that_does_not_read_cannot_hold_up_the_end(tmp_path: Path) -> None:
    with served(tmp_path, client_seconds=0.5, server_drain_sec=60) as server:
        deaf = server.connected(narrow=True)
        deaf.say(request("GET", "/api/openapi.json") * 20)
        assert status_of(server.asked(HEALTH)) == 200
        assert server.stop() == 0  # long before the time limit for requests in flight


@pytest.mark.parametrize("delay", [0.0, 0.01])
def test_killed_in_the_middle_a_repeated_start_is_one_run(tmp_path: Path, delay: float) -> None:
    """Whatever the server had committed, the same key finds the same run (G6, G8)."""
    with served(tmp_path) as server:
        key = server.key("client")
        starts = [
            request(
                "POST",
                "/api/v1/runs",
                key,
                {"work": "greet", "payload": number},
                {"Idempotency-Key": f"order-{number}"},
            )
            for number in range(20)
        ]
        clients = [server.connected() for _ in starts]
        for client, start in zip(clients, starts, strict=True):
            client.say(start)
        time.sleep(delay)  # the attack needs a random moment in the middle
        server.stop(signal.SIGKILL)
        server.start()
        first = [json_of(server.asked(start))["id"] for start in starts]
        again = [json_of(server.asked(start)) for start in starts]
        assert [each["id"] for each in again] == first
        assert all(each["existed"] for each in again)
        found = json_of(server.asked(request("GET", "/api/v1/runs?size=100", key)))["items"]
        assert sorted(each["id"] for each in found) == sorted(first)
        assert server.stop() == 0


def test_starting_at_once_from_many_sides_under_one_key_is_one_run(server: Served, key: str) -> None:
    start = request("POST", "/api/v1/runs", key, {"work": "greet"}, {"Idempotency-Key": "at-once"})
    told: list[Any] = []
    threads = [threading.Thread(target=lambda: told.append(json_of(server.asked(start)))) for _ in range(30)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({each["id"] for each in told}) == 1
    assert sum(not each["existed"] for each in told) == 1


async def test_a_body_that_does_not_come_is_not_waited_for_forever() -> None:
    async def reading(_scope: Any, receive: Any, _send: Any) -> None:
        await receive()

    async def never() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "headers": []}
    with pytest.raises(ProblemError) as caught:
        await BodyLimits(reading, most=10, seconds=0.01)(scope, never, _nothing)
    assert (caught.value.status_code, caught.value.code) == (408, "body_too_slow")


async def _nothing(_message: Any) -> None:
    pass
