"""Client of the API: requests, pages and errors, over HTTP or in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus as Status
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from redrive.cli.terminal import notice
from redrive.errors import InvalidValueError, RedriveError

PAGE = 200
MAX_WAIT_SECONDS = 30.0
TRIES = 5
BUSY = frozenset({429, 503})


class ApiResponse(NamedTuple):
    """Header names are lowercase."""

    status: int
    headers: Mapping[str, str]
    value: Any


class ApiRequest(NamedTuple):
    """`path` is percent-encoded; `query` excludes the question mark."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def doubt(self) -> str:
        """A warning for errors after which it is unknown whether the server made the change."""
        return "" if self.method == "GET" else "; it may have succeeded, so check before you retry"


class Transport(Protocol):
    """Sends requests to an API. `where` names it for people; `server` is its URL, None in this process."""

    @property
    def where(self) -> str: ...

    @property
    def server(self) -> str | None: ...

    def send(self, request: ApiRequest) -> tuple[int, Mapping[str, str], bytes]: ...

    def close(self) -> None: ...


class ApiError(RedriveError):
    """The API rejected the request."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or f"the server returned status {status}"))
        self.status = status
        self.code = str(problem.get("code", ""))
        self.hint = str(problem.get("hint", ""))
        self.more = dict(problem)


class Client:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def where(self) -> str:
        return self._transport.where

    @property
    def server(self) -> str | None:
        return self._transport.server

    def get(self, path: str, **query: object) -> Any:
        return self.request("GET", path, query=query).value

    def post(
        self, path: str, body: object = None, *, if_match: str | None = None, key: str | None = None
    ) -> Any:
        """`key` is the idempotency key of the request."""
        return self.request("POST", path, body=body, if_match=if_match, key=key).value

    def put(self, path: str, body: object) -> Any:
        return self.request("PUT", path, body=body).value

    def patch(self, path: str, body: object, *, if_match: str) -> Any:
        return self.request("PATCH", path, body=body, if_match=if_match).value

    def delete(self, path: str, *, if_match: str | None = None) -> Any:
        return self.request("DELETE", path, if_match=if_match).value

    def pages(self, path: str, *, limit: int | None = None, **query: object) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page, up to `limit`."""
        cursor, left = None, limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = self.get(path, **query, size=size, cursor=cursor)
            yield from page["items"]
            before, cursor = cursor, page.get("next_cursor")
            if cursor is None:
                return
            if cursor == before:
                raise RedriveError(f"{self.where} returned the same page twice; the list is incomplete")
            left = None if left is None else left - len(page["items"])

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        if_match: str | None = None,
        key: str | None = None,
    ) -> ApiResponse:
        headers = {"Accept": "application/json"}
        if if_match is not None:
            headers["If-Match"] = if_match
        if key is not None:
            headers["Idempotency-Key"] = json.dumps(key)
        if body is not None:
            headers["Content-Type"] = "application/json"
        encoded = b"" if body is None else json.dumps(body).encode()
        given = {name: _utf8(str(value)) for name, value in (query or {}).items() if value is not None}
        return self._retried(ApiRequest(method, path, urlencode(given), headers, encoded))

    def _retried(self, request: ApiRequest) -> ApiResponse:
        """Retry a GET when a busy server says when to retry."""
        for left in reversed(range(TRIES if request.method == "GET" else 1)):
            status, headers, body = self._transport.send(request)
            if status in BUSY and left and (wait := _retry_after(headers)) is not None:
                notice(f"The server is busy. Retrying in {wait:g} s …")
                time.sleep(wait)
                continue
            break
        if status >= 400:
            raise ApiError(status, _problem(body))
        return ApiResponse(status, headers, self._value(request, status, body))

    def _value(self, request: ApiRequest, status: int, body: bytes) -> Any:
        if status == Status.NO_CONTENT:
            return None
        try:
            if Status.OK <= status < Status.MULTIPLE_CHOICES:
                return json.loads(body, parse_constant=_reject_constant)
        except (ValueError, RecursionError):
            pass  # reported below
        raise RedriveError(
            f"{self.where} did not return JSON (status {status}); check that this is the URL of a Redrive "
            f"server{request.doubt}"
        )


def segment(text: str) -> str:
    """Encode an id or a name as one segment of a path, even `..`."""
    return quote(_utf8(text), safe="") if text.strip(".") else text.replace(".", "%2E")


def _utf8(text: str) -> str:
    """Reject text that is not valid UTF-8; arguments can be any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValueError(f"{text!r:.200} is not valid UTF-8") from None
    return text


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return min(MAX_WAIT_SECONDS, float(text)) if text.isascii() and text.isdecimal() else None


def _problem(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
