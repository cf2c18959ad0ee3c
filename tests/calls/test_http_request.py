"""The requests of an HTTP client (G7)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import time
from typing import Any

import pytest
from tests.calls.conftest import Connect
from tests.misbehaving import MisbehavingServer, answer, reset

from redrive import AsyncHttpClient, HttpClient
from redrive.calls import log_fields
from redrive.errors import HttpStatusError, InvalidValueError


class TestHeaders:
    def test_the_plain_ones(self, connect: Connect, server: MisbehavingServer) -> None:
        connect().request("GET", "/things")
        (request,) = server.requests
        assert (request.method, request.path, request.body) == ("GET", "/things", b"")
        assert request.headers["accept"] == "application/json"
        assert re.fullmatch(r"[0-9a-f]{32}", request.headers["x-request-id"])
        assert {"authorization", "idempotency-key", "x-user-id", "content-type"}.isdisjoint(request.headers)

    def test_bearer_token(self, connect: Connect, server: MisbehavingServer) -> None:
        connect(token="secret").request("GET", "/")
        assert server.requests[0].headers["authorization"] == "Bearer secret"

    def test_a_token_function_is_asked_before_every_request(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        tokens = iter(["first", "second"])
        caller = connect(token=lambda: next(tokens))
        caller.request("GET", "/")
        caller.request("GET", "/")
        assert [request.headers["authorization"] for request in server.requests] == [
            "Bearer first",
            "Bearer second",
        ]

    def test_the_request_id_is_the_same_over_the_attempts(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        server.script(answer(503), reset(), answer())
        caller = connect()
        caller.request("GET", "/")
        caller.request("GET", "/")
        ids = [request.headers["x-request-id"] for request in server.requests]
        assert len(ids) == 4
        assert ids[0] == ids[1] == ids[2] != ids[3]

    def test_the_request_id_is_that_of_the_request_being_served(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        with log_fields(request_id="incoming-7"):
            connect().request("GET", "/")
        assert server.requests[0].headers["x-request-id"] == "incoming-7"

    def test_the_request_id_is_in_the_log(
        self, connect: Connect, server: MisbehavingServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "redrive")
        server.script(answer(503))
        connect().request("GET", "/")
        sent = server.requests[0].headers["x-request-id"]
        assert [record.fields["request_id"] for record in caplog.records] == [sent, sent]  # type: ignore[attr-defined]

    def test_idempotency_key(self, connect: Connect, server: MisbehavingServer) -> None:
        connect().request("POST", "/charges", json={}, idempotency_key="charge:7")
        assert server.requests[0].headers["idempotency-key"] == "charge:7"

    def test_user(self, connect: Connect, server: MisbehavingServer) -> None:
        caller = connect()
        caller.request("GET", "/", user_id="ada")
        caller.request("GET", "/")
        assert server.requests[0].headers["x-user-id"] == "ada"
        assert "x-user-id" not in server.requests[1].headers

    def test_another_user_header(self, connect: Connect, server: MisbehavingServer) -> None:
        connect(user_header="X-Acting-For").request("GET", "/", user_id="ada")
        assert server.requests[0].headers["x-acting-for"] == "ada"

    def test_own_headers_come_last_whatever_their_case(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        caller = connect(
            headers={"ACCEPT": "text/json", "X-One": "client"}, user_header="X-User", token="of the client"
        )
        headers = {
            "x-ONE": "request",
            "X-Request-ID": "mine",
            "Authorization": "Basic x",
            "x-user": "by hand",
        }
        caller.request("GET", "/", headers=headers, user_id="ada")
        sent = server.requests[0].headers
        assert sent["accept"] == "text/json"
        assert sent["x-one"] == "request"
        assert sent["x-request-id"] == "mine"
        assert sent["authorization"] == "Basic x"
        assert sent["x-user"] == "by hand"

    @pytest.mark.parametrize("value", ["two\r\nlines: x", "nul\0", "ü", "\x7f"])
    def test_a_value_cannot_smuggle_a_header_in(
        self, connect: Connect, server: MisbehavingServer, value: str
    ) -> None:
        with pytest.raises(InvalidValueError, match="x-user-id"):
            connect().request("GET", "/", user_id=value)
        with pytest.raises(InvalidValueError, match="idempotency-key"):
            connect().request("POST", "/", json={}, idempotency_key=value)
        assert server.requests == []
        with log_fields(request_id=value):
            connect().request("GET", "/")
        assert server.requests[0].headers["x-request-id"].isalnum()

    def test_a_token_that_cannot_be_sent_is_not_shown(
        self, connect: Connect, server: MisbehavingServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A token read from a file, with a line break at its end."""
        caplog.set_level(logging.DEBUG)
        with pytest.raises(InvalidValueError, match="authorization") as caught:
            connect(token="geheim\n").request("GET", "/")
        assert "geheim" not in repr(caught.value) + caplog.text
        assert server.requests == []


class TestBody:
    def test_json(self, connect: Connect, server: MisbehavingServer) -> None:
        value = {"name": "Ünï", "list": [1, 2.5, None, True], "empty": {}}
        connect().request("POST", "/", json=value)
        (request,) = server.requests
        assert json.loads(request.body) == value
        assert request.headers["content-type"] == "application/json"

    @pytest.mark.parametrize("value", [0, False, "", [], {}])
    def test_json_that_is_false_is_sent(
        self, connect: Connect, server: MisbehavingServer, value: object
    ) -> None:
        connect().request("POST", "/", json=value)
        assert json.loads(server.requests[0].body) == value

    def test_the_body_is_the_same_on_every_attempt(self, connect: Connect, server: MisbehavingServer) -> None:
        server.script(answer(503), reset(), answer())
        connect().request("PUT", "/", json={"a": 1})
        assert [request.body for request in server.requests] == [b'{"a":1}'] * 3

    @pytest.mark.parametrize(
        "value",
        [float("nan"), {"deep": [float("inf")]}, {1, 2}, object(), b"bytes"],
        ids=["nan", "infinity", "set", "object", "bytes"],
    )
    def test_values_that_json_cannot_express_are_rejected_before_a_request_is_sent(
        self, connect: Connect, server: MisbehavingServer, value: object
    ) -> None:
        with pytest.raises(InvalidValueError, match="JSON"):
            connect().request("POST", "/", json=value)
        assert server.requests == []

    def test_a_body_that_contains_itself_is_refused(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        value: list[Any] = []
        value.append(value)
        with pytest.raises(InvalidValueError, match="JSON"):
            connect().request("POST", "/", json=value)
        assert server.requests == []


class TestAddress:
    def test_the_path_is_added_to_the_base(self, connect: Connect, server: MisbehavingServer) -> None:
        caller = connect(f"{server.url}/api/v1")
        caller.request("GET", "/things")
        caller.request("GET", "things?page=2")
        assert [request.path for request in server.requests] == ["/api/v1/things", "/api/v1/things?page=2"]

    @pytest.mark.parametrize("method", ["get", "Get", "GET"])
    def test_the_method_may_be_written_any_way(
        self, connect: Connect, server: MisbehavingServer, method: str
    ) -> None:
        connect().request(method, "/")
        assert server.requests[0].method == "GET"

    @pytest.mark.parametrize("url", ["", "host", "/path", "http://", "host:80/path"])
    def test_a_base_that_is_no_whole_url_is_refused(self, url: str) -> None:
        for client in (HttpClient, AsyncHttpClient):
            with pytest.raises(InvalidValueError, match="base_url"):
                client(url)

    def test_a_path_cannot_lead_to_another_host(self, connect: Connect, server: MisbehavingServer) -> None:
        """The token and the breaker belong to one host; a path from outside must not choose another."""
        with MisbehavingServer() as other:
            caller = connect(token="secret")
            there = f"127.0.0.1:{other.port}/steal"
            for path in (f"http://{there}", f"HTTP://{there}", f"//{there}"):
                with pytest.raises(InvalidValueError, match="path"):
                    caller.request("GET", path)
            assert other.requests == []
        assert server.requests == []


class TestOptions:
    """A misspelled option must not be ignored."""

    def test_unknown_ones_of_a_client(self, connect: Connect) -> None:
        with pytest.raises(TypeError, match="time_out"):
            connect(time_out=3.0)

    def test_unknown_ones_of_a_request(self, connect: Connect, server: MisbehavingServer) -> None:
        with pytest.raises(TypeError, match="idempotencykey"):
            connect().request("POST", "/", json={}, idempotencykey="key")
        assert server.requests == []


class TestConnections:
    def test_one_pool_for_all_requests(self, connect: Connect, server: MisbehavingServer) -> None:
        caller = connect()
        for _ in range(5):
            caller.request("GET", "/")
        server.script(answer(404), answer(503), answer(500, body="x" * 10_000))
        for _ in range(2):
            with contextlib.suppress(HttpStatusError):
                caller.request("GET", "/")
        assert len({request.connection for request in server.requests}) == 1

    def test_closed_it_makes_no_more_requests(self, server: MisbehavingServer) -> None:
        with HttpClient(server.url) as client:
            client.request("GET", "/")
        with pytest.raises(RuntimeError, match="closed"):
            client.request("GET", "/")
        assert len(server.requests) == 1

    async def test_the_async_client_closes_too(self, server: MisbehavingServer) -> None:
        async with AsyncHttpClient(server.url) as client:
            await client.request("GET", "/")
        with pytest.raises(RuntimeError, match="closed"):
            await client.request("GET", "/")
        assert len(server.requests) == 1

    def test_closed_it_leaves_no_connection(self, server: MisbehavingServer) -> None:
        with HttpClient(server.url) as client:
            client.request("GET", "/")
            assert len(server._open) >= 1
        ends = time.monotonic() + 5.0
        while server._open and time.monotonic() < ends:
            time.sleep(0.005)
        assert server._open == set()

    async def test_requests_side_by_side(self, server: MisbehavingServer) -> None:
        async with AsyncHttpClient(server.url) as client:
            answers = await asyncio.gather(*(client.request("GET", f"/{number}") for number in range(20)))
        assert answers == [{}] * 20
        assert sorted(request.path for request in server.requests) == sorted(
            f"/{number}" for number in range(20)
        )
        assert len({request.headers["x-request-id"] for request in server.requests}) == 20
