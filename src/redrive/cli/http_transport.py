"""Transport to a server's API over HTTP. The key comes from the environment or a command, never a file."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from redrive import __version__
from redrive.cli.client import ApiError, ApiRequest
from redrive.cli.outcome import missing_extra
from redrive.errors import InvalidValueError, RedriveError
from redrive.settings.addresses import is_loopback

if TYPE_CHECKING:
    import httpx2

TIMEOUT_SECONDS = 60.0
MAX_READING_SECONDS = 600.0
MAX_BYTES = 256 * 1024 * 1024


class HttpTransport:
    """Sends requests, with the API key, to one server only."""

    def __init__(self, server: str, key: str | None, *, plain_http: bool = False) -> None:
        self.where = self.server = checked_address(server)
        if key is not None and not _is_private(self.server) and not plain_http:
            raise InvalidValueError(
                f"{server} would receive the API key unencrypted; use https or a tunnel, or add a context "
                f"with --plain-http"
            )
        self._client = _client(self.server, key)

    def send(self, request: ApiRequest) -> tuple[int, Mapping[str, str], bytes]:
        import httpx2

        try:
            with self._client.stream(
                request.method,
                f"{self.server}{request.path}{'?' if request.query else ''}{request.query}",
                headers=dict(request.headers),
                content=request.body or None,
            ) as response:
                body = b"".join(_read(response))
        except (httpx2.HTTPError, httpx2.InvalidURL, _EndlessAnswerError) as error:
            raise self._unreachable(error, request) from None
        return response.status_code, dict(response.headers), body

    def close(self) -> None:
        self._client.close()

    def _unreachable(self, error: Exception, request: ApiRequest) -> RedriveError:
        import httpx2

        if untrusted := _certificate_error(error):
            return RedriveError(f"the certificate of {self.server} is not trusted: {untrusted}")
        if isinstance(error, httpx2.TimeoutException):
            reason = f"no response within {TIMEOUT_SECONDS:g} s"
        else:
            reason = str(error) or type(error).__name__
        message = f"{self.server} can't be reached: {reason}{request.doubt}"
        if isinstance(error, httpx2.TimeoutException | _SlowAnswerError):
            return ApiError(HTTPStatus.GATEWAY_TIMEOUT, {"detail": message})
        return RedriveError(message)


class _EndlessAnswerError(Exception):
    """The response is larger than any response of a Redrive server."""


class _SlowAnswerError(_EndlessAnswerError):
    """The response has not finished after a long time."""


def checked_address(text: str) -> str:
    """Check the URL of a server and remove a trailing slash."""
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment or " " in text or not text.isprintable():
        raise InvalidValueError(f"{text!r} is not a server URL, such as https://redrive.example.com")
    if parts.username is not None or parts.password is not None:
        raise InvalidValueError(
            "a server URL must not contain a password; put the API key into REDRIVE_API_KEY"
        )
    return text.rstrip("/")


def _client(server: str, key: str | None) -> httpx2.Client:
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise missing_extra("connecting to a server", error, "cli") from None
    headers = {
        "User-Agent": f"redrive/{__version__}",
        "Accept-Encoding": "identity",
        "Connection": "close",
    }
    if key is not None:
        if not key.isascii() or not key.isprintable() or " " in key:
            raise InvalidValueError("the API key contains invalid characters; check what you pasted")
        headers["Authorization"] = f"Bearer {key}"
    try:
        return httpx2.Client(
            headers=headers,
            timeout=TIMEOUT_SECONDS,
            # A request on a connection that the server is closing fails, possibly after it was executed.
            limits=httpx2.Limits(max_keepalive_connections=0),
            event_hooks={"response": [_refuse_redirect]},
            # A proxy from the environment must not read unencrypted requests to this machine.
            trust_env=not (urlsplit(server).scheme == "http" and _is_private(server)),
        )
    except (ImportError, ValueError) as error:
        raise RedriveError(f"the proxy set in the environment can't be used: {error}") from None


def _refuse_redirect(response: httpx2.Response) -> None:
    """Reject redirects, so that no other host receives the key."""
    if response.has_redirect_location:
        target = urljoin(str(response.url), response.headers["location"])
        raise InvalidValueError(
            f"{response.url.host} redirects to {target[:200]}; if that is the server, use that URL"
        )


def _read(response: httpx2.Response) -> Iterator[bytes]:
    """Read the raw bytes, without decompression, so that a small response can't expand into a huge one."""
    started, size = time.monotonic(), 0
    for part in response.iter_raw():
        size += len(part)
        if size > MAX_BYTES:
            raise _EndlessAnswerError(f"its response is larger than {MAX_BYTES:,} bytes")
        if time.monotonic() - started > MAX_READING_SECONDS:
            raise _SlowAnswerError(f"its response was not complete after {MAX_READING_SECONDS:.0f} s")
        yield part


def _is_private(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error
