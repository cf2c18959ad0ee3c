"""Logs and representations of the HTTP client: no line of httpx2, and no secret."""

import logging

import pytest
from tests.calls.conftest import Connect
from tests.misbehaving import MisbehavingServer, answer_json

from redrive import HttpClient
from redrive.errors import InvalidValueError

SECRET = "hunter2-hunter2"


def test_nothing_on_the_happy_path_by_any_logger(
    connect: Connect, server: MisbehavingServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.otherwise(answer_json({}))
    with caplog.at_level(logging.INFO):
        connect().request("GET", f"/x?token={SECRET}")
    assert caplog.records == []


def test_other_users_of_httpx_keep_its_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logging.getLogger("httpx2").info("of somebody else")
    assert [record.getMessage() for record in caplog.records] == ["of somebody else"]


def test_the_line_of_an_answer_is_redacted(
    connect: Connect, server: MisbehavingServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.otherwise(answer_json({}))
    with caplog.at_level(logging.DEBUG, logger="redrive.calls"):
        connect().request("GET", "/", operation=f"look password={SECRET}")
    (record,) = [each for each in caplog.records if each.name == "redrive.calls"]
    assert record.fields["event"] == "http.answered"  # type: ignore[attr-defined]
    assert record.fields["http_status"] == 200  # type: ignore[attr-defined]
    assert SECRET not in record.getMessage()


def test_a_request_does_not_show_its_headers() -> None:
    with HttpClient("http://localhost", token=SECRET) as client:
        assert SECRET not in repr(client._exchange("GET", "/", None, False, {"json": {"password": SECRET}}))


def test_a_password_in_the_base_url_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidValueError) as caught:
        HttpClient(f"http://user:{SECRET}@localhost")
    assert SECRET not in str(caught.value)


def test_a_key_among_the_headers_is_refused(connect: Connect) -> None:
    """The client would send it, but the guard would not know it."""
    with pytest.raises(InvalidValueError, match="idempotency_key="):
        connect().request("POST", "/", json={}, headers={"Idempotency-Key": "k"})


def test_a_user_may_be_a_number(connect: Connect, server: MisbehavingServer) -> None:
    connect().request("GET", "/", user_id=42)
    assert server.requests[0].headers["x-user-id"] == "42"
