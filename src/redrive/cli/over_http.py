"""A server's API over HTTP. Its key comes from the environment or a command, never from a file."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from email.message import Message
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from redrive import __version__
from redrive.addresses import is_loopback
from redrive.cli.client import Question
from redrive.errors import InvalidValueError, RedriveError

TIMEOUT = 60.0


class RemoteApi:
    def __init__(self, server: str, key: str | None, *, plain_http: bool = False) -> None:
        self.where = self.server = checked_address(server)
        if key is not None and not _is_safe(self.server) and not plain_http:
            raise InvalidValueError(
                f"{server} is neither https nor on this machine, so that others could read the key on its "
                f"way; use https or a tunnel, or a context that was added with --plain-http"
            )
        self._key = key
        self._opener = build_opener(_NoRedirect)

    def ask(self, question: Question) -> tuple[int, Mapping[str, str], bytes]:
        try:
            with self._opener.open(self._request(question), timeout=TIMEOUT) as response:
                return response.status, _small(response.headers), response.read()
        except HTTPError as error:
            with error:
                return error.code, _small(error.headers), error.read()
        except (URLError, OSError, http.client.HTTPException) as error:
            raise self._unreachable(error, question) from None

    def close(self) -> None:
        """A connection ends with its answer."""

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
        doubt = "" if question.method == "GET" else "; it may have been done all the same, so look first"
        return RedriveError(f"{self.server} does not answer: {reason}{doubt}")


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
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidValueError(f"{text!r} is no address of a server; it is like https://redrive.example.com")
    if parts.username is not None or parts.password is not None:
        raise InvalidValueError("an address must not hold a secret; the key goes into REDRIVE_API_KEY")
    return text.rstrip("/")


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _small(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
