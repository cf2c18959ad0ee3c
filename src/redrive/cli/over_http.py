"""A server's API over HTTP. Its key comes from the environment or a command, never from a file."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator, Mapping
from email.message import Message
from http import HTTPStatus
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from redrive import __version__
from redrive.cli.client import AnswerError, Question
from redrive.errors import InvalidValueError, RedriveError
from redrive.settings.addresses import is_loopback

TIMEOUT = 60.0
"""Seconds of silence."""
MAX_READING_SECONDS = 600.0
MAX_BYTES = 256 * 1024 * 1024
AT_ONCE = 64 * 1024


class RemoteApi:
    def __init__(self, server: str, key: str | None, *, plain_http: bool = False) -> None:
        self.where = self.server = checked_address(server)
        if key is not None and not _is_safe(self.server) and not plain_http:
            raise InvalidValueError(
                f"{server} is neither https nor on this machine, so that others could read the key on its "
                f"way; use https or a tunnel, or a context that was added with --plain-http"
            )
        self._key = None if key is None else checked_key(key)
        self._opener = _opener(self.server)

    def ask(self, question: Question) -> tuple[int, Mapping[str, str], bytes]:
        try:
            with self._answered(question) as response:
                return response.status, _small(response.headers), b"".join(_read(response))
        except (URLError, OSError, http.client.HTTPException) as error:
            raise self._unreachable(error, question) from None

    def close(self) -> None:
        """A connection ends with its answer."""

    def _answered(self, question: Question) -> Any:
        """A refusal is an answer, too."""
        try:
            return self._opener.open(self._request(question), timeout=TIMEOUT)
        except HTTPError as error:
            return error

    def _request(self, question: Question) -> Request:
        address = f"{self.server}{question.path}{'?' if question.query else ''}{question.query}"
        headers = {**question.headers, "User-Agent": f"redrive/{__version__}"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return Request(address, question.body or None, headers, method=question.method)  # noqa: S310 - http(s)

    def _unreachable(self, error: Exception, question: Question) -> RedriveError:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            return RedriveError(f"the certificate of {self.server} is not trusted: {reason}")
        told = f"{self.server} does not answer: {reason}{question.doubt}"
        if isinstance(reason, TimeoutError):
            return AnswerError(HTTPStatus.GATEWAY_TIMEOUT, {"detail": told})
        return RedriveError(told)


class _NoRedirect(HTTPRedirectHandler):
    """Another host must not get the key."""

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> Request | None:
        raise InvalidValueError(f"the server sends us on to {newurl[:200]}: is that its address?")


def checked_address(text: str) -> str:
    """Without a slash at its end."""
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment or " " in text or not text.isprintable():
        raise InvalidValueError(f"{text!r} is no address of a server; it is like https://redrive.example.com")
    if parts.username is not None or parts.password is not None:
        raise InvalidValueError("an address must not hold a secret; the key goes into REDRIVE_API_KEY")
    return text.rstrip("/")


def checked_key(key: str) -> str:
    """Told without showing it."""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidValueError("the API key has signs in it that no key has; was more copied than the key?")
    return key


def _opener(server: str) -> OpenerDirector:
    """What goes to this machine, unencrypted, must not take the way over a proxy."""
    if urlsplit(server).scheme == "http" and _is_safe(server):
        return build_opener(_NoRedirect, ProxyHandler({}))
    return build_opener(_NoRedirect)


def _read(response: Any) -> Iterator[bytes]:
    """All of it, unless it does not end."""
    began, size, whole = time.monotonic(), 0, response.length
    while part := response.read1(AT_ONCE):
        size += len(part)
        if size > MAX_BYTES:
            raise http.client.HTTPException(f"its answer is larger than {MAX_BYTES:,} bytes")
        if time.monotonic() - began > MAX_READING_SECONDS:
            raise TimeoutError(f"its answer has not ended after {MAX_READING_SECONDS:.0f} s")
        yield part
    if whole is not None and size < whole:
        raise http.client.HTTPException("the connection has ended in the middle of its answer")


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _small(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
