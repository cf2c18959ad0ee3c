"""The HTTP client when the network, the server or the clock fails (G3, G7)."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from email.utils import formatdate

import httpx2
import pytest
from tests.calls.conftest import Connect
from tests.misbehaving import (
    HOST,
    Behavior,
    Exchange,
    MisbehavingServer,
    answer,
    close,
    close_on_accept,
    drip,
    full_backlog,
    refused_port,
    reset,
    reset_on_accept,
    silence,
)

from redrive import (
    AsyncHttpClient,
    Backoff,
    BreakerPolicy,
    Category,
    HttpClient,
    RetryPolicy,
    Rule,
    classify,
    dependency,
)
from redrive.calls import current_attempt
from redrive.errors import (
    AttemptTimeoutError,
    BreakerOpenError,
    DeferredError,
    HttpStatusError,
    InvalidValueError,
)
from redrive.policy import BudgetPolicy, Classifier, ErrorClass, Linear


class TestRetries:
    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
    @pytest.mark.parametrize("behavior", [reset(), close(), answer(500)], ids=["reset", "closed", "500"])
    def test_repeatable_methods_after_anything(
        self, connect: Connect, server: MisbehavingServer, method: str, behavior: Behavior
    ) -> None:
        server.script(behavior, behavior)
        connect().request(method, "/")
        assert len(server.requests) == 3

    @pytest.mark.parametrize("method", ["POST", "PATCH", "TRANSFER"])
    @pytest.mark.parametrize("behavior", [reset(), close(), answer(500)], ids=["reset", "closed", "500"])
    def test_others_not_when_they_may_have_been_executed(
        self, connect: Connect, server: MisbehavingServer, method: str, behavior: Behavior
    ) -> None:
        server.script(behavior)
        with pytest.raises((HttpStatusError, httpx2.HTTPError)) as caught:
            connect().request(method, "/charges", json={})
        assert len(server.requests) == 1
        assert "may have been executed" in caught.value.__notes__[0]

    @pytest.mark.parametrize("method", ["POST", "PATCH"])
    @pytest.mark.parametrize("behavior", [reset(), close(), answer(500)], ids=["reset", "closed", "500"])
    def test_with_a_key_they_are_repeated_with_the_same_key(
        self, connect: Connect, server: MisbehavingServer, method: str, behavior: Behavior
    ) -> None:
        server.script(behavior, behavior)
        assert connect().request(method, "/charges", json={}, idempotency_key="charge:7") == {}
        assert [request.headers["idempotency-key"] for request in server.requests] == ["charge:7"] * 3

    def test_refused_connections_are_repeated_always(self, connect: Connect) -> None:
        with pytest.raises(httpx2.ConnectError) as caught:
            connect(f"http://{HOST}:{refused_port()}").request("POST", "/charges", json={})
        assert "after 3 attempts" in caught.value.__notes__[0]

    @pytest.mark.parametrize("status", [425, 429])
    def test_refusals_are_repeated_always(
        self, connect: Connect, server: MisbehavingServer, status: int
    ) -> None:
        server.script(answer(status), answer(status))
        assert connect().request("POST", "/charges", json={}) == {}

    @pytest.mark.parametrize("behavior", [reset_on_accept(), close_on_accept()], ids=["reset", "closed"])
    def test_a_connection_that_ends_at_once(
        self, connect: Connect, server: MisbehavingServer, behavior: Behavior
    ) -> None:
        server.script(behavior, behavior)
        assert connect().request("GET", "/") == {}
        assert len(server.requests) == 1

    def test_an_empty_key_is_refused(self, connect: Connect, server: MisbehavingServer) -> None:
        with pytest.raises(InvalidValueError, match="idempotency key"):
            connect().request("POST", "/charges", json={}, idempotency_key="")
        assert server.requests == []

    def test_the_policy_of_the_client(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(503))
        policy = RetryPolicy(max_attempts=5, backoff=Backoff(Linear(0.0, 0.0)))
        with pytest.raises(HttpStatusError):
            connect(policy=policy).request("GET", "/")
        assert len(server.requests) == 5

    def test_the_classifier_of_the_client(self, connect: Connect, server: MisbehavingServer) -> None:
        rule = Rule.for_status(404, Category.PROVIDER_5XX, ErrorClass.RETRYABLE)
        server.script(answer(404))
        assert connect(classifier=Classifier([rule])).request("GET", "/") == {}

    def test_an_error_of_the_network_is_the_original_one(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        server.otherwise(reset())
        with pytest.raises(httpx2.NetworkError) as caught:
            connect().request("GET", "/")
        assert classify(caught.value).category is Category.NETWORK


class TestRetryAfter:
    def test_in_seconds(self, connect: Connect, server: MisbehavingServer) -> None:
        server.script(answer(429, {"Retry-After": "0.15"}))
        started = time.monotonic()
        connect().request("GET", "/")
        assert time.monotonic() - started >= 0.15

    def test_in_milliseconds(self, connect: Connect, server: MisbehavingServer) -> None:
        server.script(answer(429, {"retry-after-ms": "120"}))
        started = time.monotonic()
        connect().request("GET", "/")
        assert time.monotonic() - started >= 0.12

    def test_of_an_unavailable_server(self, connect: Connect, server: MisbehavingServer) -> None:
        server.script(answer(503, {"Retry-After": "0.1"}))
        started = time.monotonic()
        connect().request("GET", "/")
        assert time.monotonic() - started >= 0.1

    def test_as_a_date(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(429, {"Retry-After": formatdate(time.time() + 7200, usegmt=True)}))
        with pytest.raises(DeferredError) as caught:
            connect().request("GET", "/")
        assert caught.value.retry_after == pytest.approx(7200, abs=5)
        assert isinstance(caught.value.__cause__, HttpStatusError)
        assert len(server.requests) == 1

    def test_as_a_date_that_has_passed(self, connect: Connect, server: MisbehavingServer) -> None:
        past = formatdate(time.time() - 60, usegmt=True)
        server.script(*[answer(429, {"Retry-After": past})] * 5)
        assert connect().request("GET", "/") == {}

    def test_longer_than_any_caller_waits(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(429, {"Retry-After": "90"}))
        with pytest.raises(DeferredError) as caught:
            connect().request("POST", "/charges", json={})
        assert caught.value.retry_after == 90.0

    def test_beyond_the_deadline(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(429, {"Retry-After": "30"}))
        with pytest.raises(HttpStatusError) as caught:
            connect(deadline=5.0).request("GET", "/")
        assert "deadline" in caught.value.__notes__[0]


class TestTime:
    """The limits are short and the server is slow: a client that waited for it would hang."""

    def test_silence(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(silence())
        with pytest.raises((AttemptTimeoutError, httpx2.TimeoutException)) as caught:
            connect(timeout=0.2).request("GET", "/")
        assert classify(caught.value).category is Category.TIMEOUT
        assert len(server.requests) == 3

    def test_of_an_attempt_is_10_seconds_unless_said_otherwise(self, connect: Connect) -> None:
        def returns(value: object) -> float:
            attempt = current_attempt()
            assert attempt is not None
            return attempt.expires - attempt.started

        assert connect().request("GET", "/", returns=returns) == pytest.approx(10.0)
        assert connect(timeout=7.0).request("GET", "/", returns=returns) == pytest.approx(7.0)
        assert connect(timeout=7.0).request("GET", "/", returns=returns, timeout=3.0) == pytest.approx(3.0)
        caller = connect(timeout=timedelta(minutes=1))
        assert caller.request("GET", "/", returns=returns) == pytest.approx(60.0)
        short = timedelta(milliseconds=2500)
        assert caller.request("GET", "/", returns=returns, timeout=short) == pytest.approx(2.5)

    def test_an_answer_that_drips(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(drip(0.02, b"x" * 10_000))
        with pytest.raises(AttemptTimeoutError):
            connect(timeout=1.0).request("POST", "/")
        assert len(server.requests) == 1

    def test_an_error_that_drips(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(drip(0.02, b"x" * 10_000, status=503))
        with pytest.raises(AttemptTimeoutError):
            connect(timeout=1.0).request("POST", "/")

    def test_a_slow_answer_in_time(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(drip(0.005, b"[1,2]"))
        assert connect(timeout=5.0).request("GET", "/") == [1, 2]

    def test_an_answer_that_stops_in_the_middle(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(_half_an_answer())
        with pytest.raises((AttemptTimeoutError, httpx2.TimeoutException)) as caught:
            connect(timeout=0.05).request("POST", "/")
        assert classify(caught.value).category is Category.TIMEOUT

    def test_of_one_request(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(silence())
        with pytest.raises((AttemptTimeoutError, httpx2.TimeoutException)):
            connect(timeout=60.0).request("POST", "/", timeout=0.05)

    def test_of_a_connection(self, connect: Connect) -> None:
        with full_backlog() as port:
            with pytest.raises((AttemptTimeoutError, httpx2.ConnectTimeout)) as caught:
                connect(f"http://{HOST}:{port}", timeout=0.05).request("GET", "/")
            assert classify(caught.value).category is Category.TIMEOUT

    def test_of_all_attempts_together(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(silence())
        with pytest.raises((AttemptTimeoutError, httpx2.TimeoutException)):
            connect(timeout=3600.0, deadline=0.1).request("GET", "/")
        assert len(server.requests) <= 1

    def test_a_connection_that_was_given_up_is_not_used_again(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        """The late response to one request must not become the response to another."""
        server.script(silence(0.15))
        caller = connect(timeout=0.05)
        with pytest.raises((AttemptTimeoutError, httpx2.TimeoutException)):
            caller.request("POST", "/late")
        server.otherwise(answer(body='"mine"'))
        assert caller.request("POST", "/next", timeout=5.0) == "mine"
        assert server.requests[0].connection != server.requests[1].connection

    async def test_a_cancelled_request_is_not_retried(self, server: MisbehavingServer) -> None:
        server.otherwise(silence())
        async with AsyncHttpClient(server.url, timeout=60.0) as client:
            task = asyncio.ensure_future(client.request("GET", "/"))
            await asyncio.to_thread(server.wait_for, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            server.otherwise(answer())
            assert await client.request("GET", "/") == {}
        assert len(server.requests) == 2


class TestDependency:
    TOUCHY = BreakerPolicy(window_calls=3, minimum_calls=3)

    def test_the_host_has_a_breaker(self, connect: Connect, server: MisbehavingServer) -> None:
        dependency("gateway", breaker=self.TOUCHY)
        server.otherwise(answer(503))
        caller = connect(dependency="gateway")
        with pytest.raises(HttpStatusError):
            caller.request("GET", "/")
        with pytest.raises(BreakerOpenError, match="gateway"):
            caller.request("GET", "/other")
        assert len(server.requests) == 3

    def test_two_clients_of_one_host_share_it(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(503))
        first, second = connect(), connect()
        for _ in range(2):
            with pytest.raises((HttpStatusError, BreakerOpenError)):
                first.request("GET", "/")
        with pytest.raises(BreakerOpenError):
            second.request("GET", "/")
        assert len(server.requests) == 5

    def test_two_services_on_one_machine_do_not(self, connect: Connect, server: MisbehavingServer) -> None:
        """Another port is another service: on one machine, in tests, behind a tunnel."""
        server.otherwise(answer(503))
        for _ in range(7):
            with pytest.raises((HttpStatusError, BreakerOpenError)):
                connect().request("GET", "/")
        with MisbehavingServer() as other:
            assert connect(other.url).request("GET", "/") == {}

    def test_refusals_of_the_client_do_not_open_it(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(404))
        caller = connect()
        for _ in range(30):
            with pytest.raises(HttpStatusError):
                caller.request("GET", "/")
        assert len(server.requests) == 30

    def test_the_budget_limits_all_retries_together(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        dependency(
            "gateway",
            breaker=BreakerPolicy(window_calls=None, minimum_calls=1000),
            budget=BudgetPolicy(capacity=5.0, retry_cost=1.0),
        )
        server.otherwise(answer(503))
        caller = connect(dependency="gateway")
        for _ in range(10):
            with pytest.raises(HttpStatusError):
                caller.request("GET", "/")
        assert len(server.requests) == 10 + 5


class TestThreads:
    def test_one_sync_client_for_many_threads(self, server: MisbehavingServer) -> None:
        server.otherwise(answer(body="[1]"))
        with HttpClient(server.url) as client, ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: client.request("GET", f"/{number}"), range(64)))
        assert answers == [[1]] * 64
        assert len(server.requests) == 64


def _half_an_answer() -> Behavior:
    def play(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n[1, ")
        exchange.pause(None)

    return Behavior(play)
