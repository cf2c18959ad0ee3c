"""The client that commands ask: of a server, or of the API in this process. They cannot tell which."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus as Status
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from redrive.cli.text import notice
from redrive.errors import InvalidValueError, RedriveError

PAGE = 200
MAX_WAIT_SECONDS = 30.0
TRIES = 5
BUSY = frozenset({429, 503})


class Answer(NamedTuple):
    """Names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    value: Any


class Question(NamedTuple):
    """`path` is percent-encoded, `query` begins after the question mark."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def doubt(self) -> str:
        """What to say where there is no answer that could be read."""
        return "" if self.method == "GET" else "; it may have been done all the same, so look first"


class Api(Protocol):
    """Whoever answers. `where` is what people call it."""

    @property
    def where(self) -> str: ...

    @property
    def server(self) -> str | None: ...

    def ask(self, question: Question) -> tuple[int, Mapping[str, str], bytes]: ...

    def close(self) -> None: ...


class AnswerError(RedriveError):
    """The API has refused to do it, and said why."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or f"the server answers with {status}"))
        self.status = status
        self.code = str(problem.get("code", ""))
        self.hint = str(problem.get("hint", ""))
        self.more = dict(problem)


class Client:
    def __init__(self, api: Api) -> None:
        self.api = api

    @property
    def where(self) -> str:
        return self.api.where

    def get(self, path: str, **query: object) -> Any:
        return self.answer("GET", path, query=query).value

    def post(self, path: str, body: object = None, *, if_match: str | None = None) -> Any:
        return self.answer("POST", path, body=body, if_match=if_match).value

    def put(self, path: str, body: object = None, *, if_match: str | None = None) -> Any:
        return self.answer("PUT", path, body=body, if_match=if_match).value

    def patch(self, path: str, body: object = None, *, if_match: str | None = None) -> Any:
        return self.answer("PATCH", path, body=body, if_match=if_match).value

    def delete(self, path: str, *, if_match: str | None = None) -> Any:
        return self.answer("DELETE", path, if_match=if_match).value

    def pages(self, path: str, *, limit: int | None = None, **query: object) -> Iterator[dict[str, Any]]:
        """The items of a list, page after page, at most `limit` of them."""
        cursor, left = None, limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = self.get(path, **query, size=size, cursor=cursor)
            yield from page["items"]
            before, cursor = cursor, page.get("next_cursor")
            if cursor is None:
                return
            if cursor == before:
                raise RedriveError(f"{self.where} gives the same page again and again; this is not all")
            left = None if left is None else left - len(page["items"])

    def answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        if_match: str | None = None,
    ) -> Answer:
        headers = {"Accept": "application/json"}
        if if_match is not None:
            headers["If-Match"] = if_match
        if body is not None:
            headers["Content-Type"] = "application/json"
        encoded = b"" if body is None else json.dumps(body).encode()
        return self._answered(Question(method, path, _encoded(query or {}), headers, encoded))

    def _answered(self, question: Question) -> Answer:
        """A server that has too much to do says when to come again; what only looks does so."""
        for left in reversed(range(TRIES if question.method == "GET" else 1)):
            status, headers, body = self.api.ask(question)
            if status in BUSY and left and (wait := _retry_after(headers)) is not None:
                notice(f"The server is busy; again in {wait:g} s …")
                time.sleep(wait)
                continue
            break
        if status >= 400:
            raise AnswerError(status, _problem(body))
        return Answer(status, headers, self._value(question, status, body))

    def _value(self, question: Question, status: int, body: bytes) -> Any:
        if status == Status.NO_CONTENT:
            return None
        try:
            if Status.OK <= status < Status.MULTIPLE_CHOICES:
                return json.loads(body, parse_constant=_refused)
        except (ValueError, RecursionError):
            pass  # told below
        raise RedriveError(
            f"{self.where} answers with something else than JSON (status {status}): is it the address of a "
            f"Redrive server?{question.doubt}"
        )


def segment(text: str) -> str:
    """An id or a name as a part of a path."""
    return quote(_utf8(text), safe="")


def _encoded(query: Mapping[str, object]) -> str:
    given = {name: _spelled(value) for name, value in query.items() if value is not None}
    return urlencode(given)


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else _utf8(str(value))


def _utf8(text: str) -> str:
    """Arguments can be any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValueError(f"{text!r:.200} is no text in UTF-8") from None
    return text


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return min(MAX_WAIT_SECONDS, float(text)) if text.isascii() and text.isdecimal() else None


def _problem(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
