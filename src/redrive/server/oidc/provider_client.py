"""The wire to the provider: every exchange is bounded in time and in size, and no redirect is followed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from redrive.settings.addresses import is_loopback

SECONDS = 10.0
"""For one exchange, from the name of the host to the last byte."""
MAX_BYTES = 524_288
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "redrive"}
_NOTHING: Mapping[str, str] = {}


class WireError(Exception):
    """The provider was not reached, or its answer is of no use. The message is for the log."""


class Reply(NamedTuple):
    status: int
    content: bytes

    def __repr__(self) -> str:
        return f"Reply({self.status}, {len(self.content)} bytes)"

    def document(self) -> dict[str, Any]:
        """The JSON object that it holds."""
        try:
            found = json.loads(self.content)
        except (ValueError, RecursionError):
            raise WireError(f"status {self.status}, and not JSON") from None
        if not isinstance(found, dict):
            raise WireError(f"status {self.status}, and not a JSON object")
        return found


class ProviderClient:
    def __init__(self, issuer: str) -> None:
        """A provider on this machine may be talked to without encryption; no other, whatever it says."""
        self._local = issuer.startswith("http:")
        self._client: httpx.AsyncClient | None = None

    def is_safe(self, address: object) -> bool:
        if not isinstance(address, str) or not address.isascii() or not address.isprintable():
            return False
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
        except ValueError:
            return False
        if not host or "@" in parts.netloc or parts.fragment or "\\" in address or " " in address:
            return False
        return parts.scheme == "https" or (parts.scheme == "http" and self._local and is_loopback(host))

    async def get(self, address: str, headers: Mapping[str, str] = _NOTHING) -> dict[str, Any]:
        reply = await self._exchanged("GET", address, headers)
        if reply.status != 200:
            raise WireError(f"status {reply.status}")
        return reply.document()

    async def post(self, address: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Reply:
        return await self._exchanged("POST", address, headers, form)

    async def _exchanged(
        self, method: str, address: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> Reply:
        if not self.is_safe(address):
            raise WireError("the address is not one of https")
        try:
            async with asyncio.timeout(SECONDS):
                client = self._opened()
                async with client.stream(
                    method, address, headers={**_HEADERS, **headers}, data=form
                ) as reply:
                    return Reply(reply.status_code, await _content(reply))
        except TimeoutError:
            raise WireError(f"no whole answer within {SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise WireError(type(error).__name__) from None

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:  # it reads all certificates, so only once, and only where it is needed
            self._client = httpx.AsyncClient(
                timeout=SECONDS,
                follow_redirects=False,
                trust_env=not self._local,
                limits=httpx.Limits(max_keepalive_connections=0),  # nothing is left open, nothing to close
            )
        return self._client


async def _content(reply: httpx.Response) -> bytes:
    if reply.headers.get("content-encoding", "identity") != "identity":
        raise WireError("the answer is compressed, although that was not asked for")
    content = bytearray()
    async for chunk in reply.aiter_raw():
        content += chunk
        if len(content) > MAX_BYTES:
            raise WireError(f"the answer has more than {MAX_BYTES:,} bytes")
    return bytes(content)
