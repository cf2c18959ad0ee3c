"""G2: every outbound call is limited, a sync one too. G1: partial policies and classify functions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from tests.calls.script import Play, Script, play_sync
from tests.misbehaving import Behavior, MisbehavingServer, answer, drip, raw

from redrive import Attempt, Category, Guard, HttpClient, attempts, call, classify, retry
from redrive.calls import current_attempt
from redrive.calls.event import AttemptFailed, CallEvent
from redrive.errors import AttemptTimeoutError, InvalidValueError, RateLimitedError
from redrive.model.failure import ErrorClass
from redrive.policy import CALL, Equal, NoJitter
from redrive.testing import VirtualClock

SHORT = 0.05


class TestG2:
    """Sync functions that return too late."""

    def test_15_g2_a_late_return_is_a_timeout_and_is_retried(self, clock: VirtualClock) -> None:
        script = Script("late", "in time", clock=clock, takes=(2.0, 0.5))
        assert play_sync(script, Guard("work", timeout=1.0, clock=clock)) == "in time"
        (failure,) = script.attempts[1].failures
        assert failure.category is Category.TIMEOUT
        assert failure.may_have_executed

    def test_g2_a_late_return_of_an_unsafe_call_is_not_retried(self, clock: VirtualClock) -> None:
        script = Script("late", "twice", clock=clock, takes=(2.0,))
        with pytest.raises(AttemptTimeoutError, match="attempt 1 of 'pay' took longer than 1 s"):
            play_sync(script, Guard("pay", timeout=1.0, effect="unsafe", clock=clock))
        assert script.executions == 1

    def test_g2_an_unsafe_call_with_an_idempotency_key_is_retried(self, clock: VirtualClock) -> None:
        script = Script("late", "in time", clock=clock, takes=(2.0,))
        guard = Guard("pay", timeout=1.0, effect="unsafe", idempotency_key="pay:1", clock=clock)
        assert play_sync(script, guard) == "in time"

    def test_g2_its_own_error_is_more_telling_than_the_time(self, clock: VirtualClock, play: Play) -> None:
        script = Script(KeyError("order"), clock=clock, takes=(2.0,))
        with pytest.raises(KeyError, match="order"):
            play(script, Guard("work", timeout=1.0, clock=clock))

    def test_g2_a_late_return_counts_as_a_failure_for_the_breaker(self, clock: VirtualClock) -> None:
        guard = Guard("work", timeout=1.0, max_attempts=1, dependency="slow", clock=clock)
        for _ in range(5):
            with pytest.raises(AttemptTimeoutError):
                guard.call(Script("late", clock=clock, takes=(2.0,)))
        assert "OPEN" in repr(guard._controller.dependency)


class TestHardTimeout:
    def test_15_g2_it_returns_on_time_and_the_function_continues(self) -> None:
        release, finished = threading.Event(), threading.Event()
        seen: list[Attempt | None] = []

        def hang(attempt: Attempt) -> None:
            release.wait(30)
            seen.append(current_attempt())
            finished.set()

        with pytest.raises(AttemptTimeoutError):
            call("hang", hang, hard_timeout=True, timeout=SHORT, max_attempts=1)
        assert not finished.is_set()
        release.set()
        assert finished.wait(30)
        assert seen == [None]  # the attempt is over, so nested calls do not inherit its deadline

    def test_g2_it_is_retried(self) -> None:
        release = threading.Event()
        numbers: list[int] = []

        @retry("work", hard_timeout=True, timeout=SHORT, policy={"base_delay_ms": 0})
        def work() -> str:
            attempt = current_attempt()
            assert attempt is not None
            numbers.append(attempt.number)
            if attempt.number == 1:
                release.wait(30)
            return "done"

        assert work() == "done"
        assert numbers == [1, 2]
        release.set()

    def test_g2_results_errors_and_context_pass_through(self) -> None:
        guard = Guard("work", hard_timeout=True, max_attempts=1)
        assert guard.call(lambda attempt: attempt.number) == 1
        with pytest.raises(KeyError, match="order"):
            guard.call(_raise(KeyError("order")))
        with pytest.raises(SystemExit):
            guard.call(_raise(SystemExit(3)))

    def test_g2_async_functions_and_blocks_refuse_it(self) -> None:
        async def work(attempt: Attempt) -> None: ...

        with pytest.raises(InvalidValueError, match="hard_timeout is for sync functions"):
            _ = call("work", work, hard_timeout=True)
        with pytest.raises(InvalidValueError, match="hard_timeout needs a function"):
            attempts("work", hard_timeout=True)


def _raise(error: BaseException) -> Callable[[Attempt], Any]:
    def raising(attempt: Attempt) -> None:
        raise error

    return raising


def _dripping_head() -> Behavior:
    """Serve the head of a response byte by byte: each byte arrives long before a timeout of its own."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Padding: " + b"x" * 300 + b"\r\n\r\n{}"

    def play(exchange: Any) -> None:
        for byte in head:
            exchange.pause(0.01)
            exchange.send(bytes([byte]))

    return Behavior(play)


class TestSocketDeadline:
    def test_g2_headers_that_drip(self, server: MisbehavingServer) -> None:
        server.otherwise(_dripping_head())
        with HttpClient(server.url, timeout=0.5) as client, pytest.raises(AttemptTimeoutError) as caught:
            client.request("POST", "/")
        assert classify(caught.value).category is Category.TIMEOUT
        assert len(server.requests) == 1

    def test_15_g2_a_body_that_drips(self, server: MisbehavingServer) -> None:
        server.otherwise(drip(0.01, b"x" * 10_000))
        with HttpClient(server.url, timeout=0.5) as client, pytest.raises(AttemptTimeoutError):
            client.request("POST", "/")

    def test_g2_a_connection_that_outlives_an_attempt_serves_the_next(
        self, server: MisbehavingServer
    ) -> None:
        with HttpClient(server.url) as client:
            assert client.request("GET", "/") == {}
            assert client.request("GET", "/") == {}
        assert [request.connection for request in server.requests] == [1, 1]

    def test_g2_a_large_body_is_sent_whole(self, server: MisbehavingServer) -> None:
        with HttpClient(server.url) as client:
            client.request("PUT", "/", json="x" * 300_000)
        assert len(server.requests[0].body) == 300_002

    def test_g2_proxies_have_the_same_limit(
        self, server: MisbehavingServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        server.otherwise(_dripping_head())
        with (
            HttpClient("http://example.invalid", timeout=0.5) as client,
            pytest.raises(AttemptTimeoutError),
        ):
            client.request("POST", "/")
        assert len(server.requests) == 1

    def test_g2_a_host_without_an_address(self) -> None:
        with (
            HttpClient("http://nowhere.invalid", max_attempts=1) as client,
            pytest.raises(httpx2.ConnectError) as caught,
        ):
            client.request("POST", "/")
        failure = classify(caught.value)
        assert failure.category is Category.NETWORK
        assert not failure.may_have_executed


class TestPartialPolicy:
    def test_g1_what_it_names_changes_and_the_rest_stays(self) -> None:
        guard = Guard("work", policy={"max_attempts": 5, "base_delay_ms": 100})
        assert guard.policy.max_attempts == 5
        assert guard.policy.backoff.planned(1) == 0.1
        assert guard.policy.backoff.planned(20) == 5.0
        assert isinstance(guard.policy.backoff.jitter, Equal)
        assert guard.policy.max_rate_limit_waits == CALL.max_rate_limit_waits
        assert Guard("work", policy={}).policy.backoff == CALL.backoff

    def test_g1_the_camel_case_of_the_seed_is_an_alias(self) -> None:
        policy = {"maxAttempts": 2, "baseDelayMs": 10, "maxDelayMs": 20, "timeoutMs": 1500, "jitter": False}
        guard = Guard("work", policy=policy)
        assert guard.policy.max_attempts == 2
        assert guard.policy.backoff.cap == 0.02
        assert isinstance(guard.policy.backoff.jitter, NoJitter)
        assert guard.call(lambda attempt: attempt.expires - attempt.started) == pytest.approx(1.5)

    def test_g1_an_option_overrides_the_policy(self) -> None:
        guard = Guard("work", policy={"max_attempts": 2, "timeout_ms": 1500}, max_attempts=4, timeout=3.0)
        assert guard.policy.max_attempts == 4
        assert guard.call(lambda attempt: attempt.expires - attempt.started) == pytest.approx(3.0)

    def test_g1_a_call_takes_one(self) -> None:
        script = Script(*[ConnectionError("down") for _ in range(4)], "done")
        assert call("work", script, policy={"max_attempts": 5, "base_delay_ms": 0}) == "done"


class TestClassifyFunction:
    def test_g1_retry_and_fail(self) -> None:
        def judge(error: Exception) -> str:
            return "retry" if isinstance(error, KeyError) else "fail"

        script = Script(KeyError("later"), ConnectionError("final"), "never")
        with pytest.raises(ConnectionError):
            call("work", script, policy={"base_delay_ms": 0}, classify=judge)
        assert script.executions == 2

    @pytest.mark.parametrize(
        ("answer_", "retried", "category"),
        [
            (Category.TIMEOUT, True, Category.TIMEOUT),
            ("validation", False, Category.VALIDATION),
            (ErrorClass.RETRYABLE, True, Category.UNKNOWN),
            (ErrorClass.FINAL, False, Category.UNKNOWN),
            (None, False, Category.UNKNOWN),
        ],
    )
    def test_g1_categories_classes_and_no_opinion(
        self, answer_: Any, retried: bool, category: Category
    ) -> None:
        events: list[CallEvent] = []
        guard = Guard("work", policy={"base_delay_ms": 0}, classify=lambda _: answer_, hooks=[events.append])
        script = Script(KeyError("x"), "done")
        if retried:
            assert guard.call(script) == "done"
        else:
            with pytest.raises(KeyError):
                guard.call(script)
        assert isinstance(events[0], AttemptFailed)
        assert events[0].failure.category is category

    def test_g1_retry_keeps_the_wait_of_a_rate_limit(self, clock: VirtualClock) -> None:
        script = Script(RateLimitedError("busy", retry_after=7.0), "done", clock=clock)
        guard = Guard("work", classify=lambda _: "retry", clock=clock)
        assert guard.call(script) == "done"
        assert script.gaps == [7.0]

    @pytest.mark.parametrize("mistake", ["no", 3, KeyError("judge")])
    def test_g1_a_mistake_of_the_function_does_not_hide_the_error(self, mistake: Any) -> None:
        def judge(error: Exception) -> Any:
            if isinstance(mistake, Exception):
                raise mistake
            return mistake

        with pytest.raises(ConnectionError) as caught:
            Guard("work", classify=judge).call(Script(ConnectionError("down")))
        assert "classify r" in caught.value.__notes__[0]

    def test_g1_an_async_function_is_refused(self) -> None:
        async def judge(error: Exception) -> str:
            return "retry"

        with pytest.raises(InvalidValueError, match=r"the classify function .*judge is async"):
            Guard("work", classify=judge)  # type: ignore[arg-type]

    def test_g1_it_works_for_http(self, server: MisbehavingServer) -> None:
        server.script(answer(404), answer(), raw(b""))
        with HttpClient(server.url, classify=lambda _: "retry", policy={"base_delay_ms": 0}) as client:
            assert client.request("GET", "/") == {}
