"""How an HTTP client handles a response: typed JSON, or an error that says what happened (G7)."""

from __future__ import annotations

import gzip
import json
import logging
from dataclasses import dataclass
from typing import Any

import httpx2
import pydantic
import pytest
from tests.calls.conftest import Connect
from tests.misbehaving import (
    Behavior,
    MisbehavingServer,
    answer,
    answer_json,
    broken_encoding,
    garbage,
    invalid_json,
    redirect_loop,
    truncated,
    truncated_chunks,
)

from redrive import Category, classify
from redrive.calls.exchange import MAX_BODY_BYTES, MAX_EXCERPT_LENGTH
from redrive.errors import FinalError, HttpContentError, HttpError, HttpStatusError
from redrive.policy import Delivery

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"


@dataclass
class Thing:
    name: str
    size: int

    @classmethod
    def of(cls, value: Any) -> Thing:
        return cls(value["name"], value["size"])


class Model(pydantic.BaseModel):
    name: str
    size: int


class TestJson:
    @pytest.mark.parametrize("value", [None, 0, "text", [], {}, {"deep": [{"ü": 1.5}]}, 10**30])
    def test_any(self, connect: Connect, server: MisbehavingServer, value: object) -> None:
        server.script(answer_json(value))
        assert connect().request("GET", "/") == value

    @pytest.mark.parametrize("status", [200, 201, 202, 206, 299])
    def test_of_any_success(self, connect: Connect, server: MisbehavingServer, status: int) -> None:
        server.script(answer_json([1], status))
        assert connect().request("GET", "/") == [1]

    def test_typed(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer_json({"name": "nail", "size": 3}))
        caller = connect()
        assert caller.request("GET", "/", returns=Thing.of) == Thing("nail", 3)
        assert caller.request("GET", "/", returns=Model.model_validate) == Model(name="nail", size=3)

    @pytest.mark.parametrize(
        "behavior",
        [answer(204), answer(200, body=b""), answer(200, body=b" \r\n")],
        ids=["204", "empty", "blank"],
    )
    def test_an_empty_answer_is_none(
        self, connect: Connect, server: MisbehavingServer, behavior: Behavior
    ) -> None:
        server.script(behavior)
        assert connect().request("DELETE", "/") is None

    def test_of_a_head_request_there_is_none(self, connect: Connect, server: MisbehavingServer) -> None:
        assert connect().request("HEAD", "/") is None

    def test_returns_sees_an_empty_answer_too(self, connect: Connect, server: MisbehavingServer) -> None:
        server.script(answer(204))
        assert connect().request("GET", "/", returns=lambda value: ("made of", value)) == ("made of", None)

    def test_compressed(self, connect: Connect, server: MisbehavingServer) -> None:
        server.script(answer(200, {"Content-Encoding": "gzip"}, gzip.compress(b'{"a": 1}')))
        assert connect().request("GET", "/") == {"a": 1}

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    def test_in_any_encoding_of_unicode(
        self, connect: Connect, server: MisbehavingServer, encoding: str
    ) -> None:
        server.script(answer(200, body='"größe"'.encode(encoding)))
        assert connect().request("GET", "/") == "größe"


class TestContent:
    """A response with unexpected content would come again, so it is final (G4)."""

    @pytest.mark.parametrize(
        "behavior",
        [
            invalid_json(),
            answer(200, {"Content-Type": "text/html"}, "<html>maintenance</html>"),
            answer(200, body=b"\xff\xfe\xfa"),
            answer(200, body=b"[" * 100_000),
            answer(200, body=b"1" * 5000),
        ],
        ids=["cut off", "html", "no text", "too deep", "huge number"],
    )
    def test_no_json(self, connect: Connect, server: MisbehavingServer, behavior: Behavior) -> None:
        server.otherwise(behavior)
        with pytest.raises(HttpContentError, match=r"^the response to GET /things is not JSON\n") as caught:
            connect().request("GET", "/things")
        assert len(server.requests) == 1
        assert caught.value.__cause__ is not None

    @pytest.mark.parametrize("returns", [Thing.of, Model.model_validate, int])
    def test_the_wrong_shape(self, connect: Connect, server: MisbehavingServer, returns: Any) -> None:
        server.otherwise(answer_json({"name": "nail"}))
        with pytest.raises(HttpContentError, match="not have the expected shape") as caught:
            connect().request("GET", "/", returns=returns)
        assert len(server.requests) == 1
        failure = classify(caught.value)
        assert (failure.category, failure.delivery) == (Category.VALIDATION, Delivery.SEEN)
        assert not failure.retryable

    def test_an_unsafe_request_with_a_key_is_not_repeated_either(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        server.otherwise(invalid_json())
        with pytest.raises(HttpContentError):
            connect().request("POST", "/", json={}, idempotency_key="key")
        assert len(server.requests) == 1

    def test_a_mistake_in_returns_is_not_the_servers(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        """Redrive doesn't retry it, and the error shows the mistake."""
        mistake = FinalError("mine")

        def returns(value: object) -> None:
            raise mistake

        with pytest.raises(HttpError) as caught:
            connect().request("GET", "/", returns=returns)
        assert caught.value.__cause__ is mistake
        assert len(server.requests) == 1

    def test_broken_compression(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(broken_encoding())
        with pytest.raises((HttpError, httpx2.HTTPError)) as caught:
            connect().request("GET", "/")
        assert len(server.requests) == (3 if classify(caught.value).retryable else 1)

    def test_a_huge_body_is_refused(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(200, body=b'"' + b"x" * MAX_BODY_BYTES + b'"'))
        with pytest.raises(HttpContentError, match="larger than"):
            connect().request("GET", "/")
        assert len(server.requests) == 1

    def test_a_body_that_grows_is_refused(self, connect: Connect, server: MisbehavingServer) -> None:
        """A few kilobytes on the wire, many megabytes in memory."""
        bomb = gzip.compress(b'"' + b"x" * (MAX_BODY_BYTES * 4) + b'"', 9)
        assert len(bomb) < 100_000
        server.otherwise(answer(200, {"Content-Encoding": "gzip"}, bomb))
        with pytest.raises(HttpContentError, match="larger than"):
            connect().request("GET", "/")

    def test_the_largest_body_is_not(self, connect: Connect, server: MisbehavingServer) -> None:
        text = "x" * (MAX_BODY_BYTES - 2)
        server.script(answer(200, body=f'"{text}"'))
        assert connect().request("GET", "/") == text

    @pytest.mark.parametrize(
        "behavior", [truncated(), truncated_chunks(), garbage()], ids=["short", "short chunk", "garbage"]
    )
    def test_an_answer_cut_short_is_a_network_failure_and_retried(
        self, connect: Connect, server: MisbehavingServer, behavior: Behavior
    ) -> None:
        server.script(behavior, behavior)
        assert connect().request("GET", "/") == {}
        assert len(server.requests) == 3


class TestStatus:
    @pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
    def test_retried(self, connect: Connect, server: MisbehavingServer, status: int) -> None:
        server.script(answer(status), answer(status))
        assert connect().request("GET", "/") == {}
        assert len(server.requests) == 3

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 412, 418, 422, 451, 501])
    def test_not_retried(self, connect: Connect, server: MisbehavingServer, status: int) -> None:
        server.otherwise(answer(status))
        with pytest.raises(HttpStatusError) as caught:
            connect().request("GET", "/things")
        assert caught.value.status == status
        assert str(caught.value) == f"GET /things answered {status}"
        assert len(server.requests) == 1

    @pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
    def test_redirects_are_not_followed(
        self, connect: Connect, server: MisbehavingServer, status: int
    ) -> None:
        server.on("/from", answer(status, {"Location": "/to"}))
        with pytest.raises(HttpStatusError) as caught:
            connect(token="secret").request("GET", "/from")
        assert caught.value.status == status
        assert [request.path for request in server.requests] == ["/from"]

    def test_a_redirect_loop_is_one_request(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(redirect_loop())
        with pytest.raises(HttpStatusError):
            connect().request("GET", "/")
        assert len(server.requests) == 1

    def test_not_modified_is_no_answer_to_a_plain_request(
        self, connect: Connect, server: MisbehavingServer
    ) -> None:
        server.otherwise(answer(304))
        with pytest.raises(HttpStatusError):
            connect().request("GET", "/")

    def test_the_last_answer_is_the_error(self, connect: Connect, server: MisbehavingServer) -> None:
        server.script(*(answer(503, {"Retry-After": "0"}, f"busy {number}") for number in range(3)))
        with pytest.raises(HttpStatusError) as caught:
            connect().request("GET", "/")
        assert caught.value.body == "busy 2"
        assert caught.value.headers == {"retry-after": "0"}
        assert "after 3 attempts" in caught.value.__notes__[0]

    def test_the_body_is_an_excerpt(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(400, body="ü" * 100_000))
        with pytest.raises(HttpStatusError) as caught:
            connect().request("GET", "/")
        assert 0 < len(caught.value.body) <= MAX_EXCERPT_LENGTH
        assert "ü" * 100_000 not in str(caught.value)

    def test_the_excerpt_is_redacted(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(
            answer_json({"error": "bad key", "api_key": SECRET, "password": "correct-horse-7"}, 400)
        )
        with pytest.raises(HttpStatusError) as caught:
            connect().request("GET", "/")
        assert "bad key" in caught.value.body
        assert SECRET not in caught.value.body
        assert "correct-horse-7" not in caught.value.body

    @pytest.mark.parametrize("padding", [460, 480, 490, 1960, 1985])
    def test_a_secret_across_the_end_of_the_excerpt_is_redacted(
        self, connect: Connect, server: MisbehavingServer, padding: int
    ) -> None:
        server.otherwise(answer(400, body="-" * padding + f" {SECRET} and more"))
        with pytest.raises(HttpStatusError) as caught:
            connect().request("GET", "/")
        assert SECRET[:16] not in caught.value.body

    def test_a_body_that_is_no_text(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(400, body=b"\xff\x00\x80"))
        with pytest.raises(HttpStatusError) as caught:
            connect().request("GET", "/")
        caught.value.body.encode()


class TestCreateIfAbsent:
    def test_conflict_is_a_success(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer_json({"id": 7}, 409))
        assert connect().request("PUT", "/things/7", json={}, create_if_absent=True) is None
        assert len(server.requests) == 1

    def test_an_empty_one_too(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(409, body=b""))
        assert connect().request("POST", "/things", json={}, create_if_absent=True) is None

    def test_after_a_lost_answer(self, connect: Connect, server: MisbehavingServer) -> None:
        """The first request created the object and its response was lost; now it exists, as intended."""
        server.script(answer(503), answer(409, body=b""))
        connect().request("PUT", "/things/7", json={}, create_if_absent=True)
        assert len(server.requests) == 2

    def test_otherwise_it_is_an_error(self, connect: Connect, server: MisbehavingServer) -> None:
        server.otherwise(answer(409))
        with pytest.raises(HttpStatusError):
            connect().request("PUT", "/things/7", json={})

    @pytest.mark.parametrize("status", [400, 404, 412, 422])
    def test_no_other_status_is(self, connect: Connect, server: MisbehavingServer, status: int) -> None:
        server.otherwise(answer(status))
        with pytest.raises(HttpStatusError):
            connect().request("PUT", "/things/7", json={}, create_if_absent=True)

    @pytest.mark.parametrize(
        "behavior",
        [answer(409, body="already exists"), answer_json({"error": "exists"}, 409)],
        ids=["no JSON", "another shape"],
    )
    def test_the_body_of_a_conflict_need_not_be_the_object(
        self, connect: Connect, server: MisbehavingServer, behavior: Behavior
    ) -> None:
        """Servers answer a conflict with an error document, not with the existing object."""
        server.otherwise(behavior)
        thing = connect().request("PUT", "/things/7", json={}, create_if_absent=True, returns=Thing.of)
        assert thing is None


class TestLog:
    def test_nothing_on_the_happy_path(
        self, connect: Connect, server: MisbehavingServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "redrive")
        connect().request("GET", "/")
        assert caplog.records == []

    def test_every_failed_attempt_with_latency_status_and_class(
        self, connect: Connect, server: MisbehavingServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "redrive")
        server.script(answer(503), answer(404))
        with pytest.raises(HttpStatusError):
            connect().request("GET", "/things?id=7", operation="look up")
        first, second = (record.fields for record in caplog.records)  # type: ignore[attr-defined]
        assert (first["operation"], first["attempt"], first["http_status"]) == ("look up", 1, 503)
        assert (first["error_class"], first["retryable"]) == ("retryable", True)
        assert first["latency_ms"] >= 0
        assert (second["attempt"], second["http_status"], second["error_class"]) == (2, 404, "final")

    def test_each_answer_can_be_seen_when_asked_for(
        self, connect: Connect, server: MisbehavingServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "redrive")
        connect().request("GET", "/things?token=Zx81kQpL09aVbbT3")
        (record,) = caplog.records
        assert record.getMessage().startswith(
            'http.answered operation="GET /things" attempt=1 http_status=200'
        )

    @pytest.mark.parametrize("behavior", [answer(404), invalid_json(), truncated()])
    def test_the_query_is_in_no_error_and_no_line(
        self,
        connect: Connect,
        server: MisbehavingServer,
        caplog: pytest.LogCaptureFixture,
        behavior: Behavior,
    ) -> None:
        caplog.set_level(logging.DEBUG, "redrive")
        server.otherwise(behavior)
        with pytest.raises((HttpError, httpx2.HTTPError)) as caught:
            connect().request("GET", "/things?session=Zx81kQpL09aVbbT3#Zx81kQpL09aVbbT3")
        told = [str(caught.value), repr(caught.value), *caught.value.__notes__, caplog.text]
        told += [json.dumps(getattr(record, "fields", {})) for record in caplog.records]
        assert "Zx81kQpL09aVbbT3" not in "\n".join(told)

    def test_the_token_is_in_no_error_and_no_line(
        self, connect: Connect, server: MisbehavingServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "redrive")
        server.otherwise(answer(401))
        with pytest.raises(HttpStatusError) as caught:
            connect(token="Zx81kQpL09aVbbT3").request("GET", "/")
        assert "Zx81kQpL09aVbbT3" not in caplog.text
        assert "Zx81kQpL09aVbbT3" not in repr(vars(caught.value))
