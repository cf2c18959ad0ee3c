"""An HTTP client with simulated servers: it responds as the current troubles say."""

from __future__ import annotations

import json
from typing import Any

import httpx

from ... import pace
from ...trouble import TROUBLES, Trouble

SAID = {
    400: "The request could not be understood.",
    401: "Invalid API key provided.",
    402: "Your card was declined.",
    403: "This token has no permission to write here.",
    404: "No such resource.",
    409: "The resource was changed by somebody else.",
    410: "This endpoint is gone.",
    422: "One or more fields are not valid.",
    429: "Too many requests.",
    500: "Internal server error.",
    502: "Bad gateway.",
    503: "The service is temporarily unavailable.",
    504: "Gateway timeout.",
}
NETWORK: dict[str, tuple[type[httpx.TransportError], str]] = {
    "timeout": (httpx.ReadTimeout, "The read operation timed out"),
    "connect_timeout": (httpx.ConnectTimeout, "timed out while connecting"),
    "refused": (httpx.ConnectError, "[Errno 111] Connection refused"),
    "unknown_host": (httpx.ConnectError, "[Errno -2] Name or service not known"),
    "cut_off": (httpx.RemoteProtocolError, "Server disconnected without sending a response."),
}


class Client:
    """A client. `usual` is how long an ordinary response takes, in seconds."""

    def __init__(self, service: str, base: str, usual: float = 0.01) -> None:
        self.service = service
        self.base = base
        self.usual = usual

    async def post(self, path: str, body: Any, key: object) -> dict[str, Any]:
        return await self.request("POST", path, body, key)

    async def get(self, path: str, key: object) -> dict[str, Any]:
        return await self.request("GET", path, None, key)

    async def request(self, method: str, path: str, body: Any, key: object) -> dict[str, Any]:
        request = httpx.Request(method, f"{self.base}{path}")
        trouble = TROUBLES.met(self.service, key)
        if trouble is None:
            await pace.take(self.usual * (0.5 + TROUBLES.random.random()))
            return {"id": f"{self.service}_{key}", "status": "ok"}
        await pace.take(trouble.seconds or self.usual)
        return self._unusual(request, trouble, key)

    def _unusual(self, request: httpx.Request, trouble: Trouble, key: object) -> dict[str, Any]:
        if trouble.kind == "slow":
            return {"id": f"{self.service}_{key}", "status": "ok"}
        if trouble.kind == "garbage":
            return dict(json.loads("<html><title>Login</title></html>"))
        if trouble.kind in NETWORK:
            kind, said = NETWORK[trouble.kind]
            raise kind(trouble.said or said, request=request)
        return self._raise_for_status(request, int(trouble.kind), trouble.said)

    def _raise_for_status(self, request: httpx.Request, status: int, said: str) -> dict[str, Any]:
        headers = {"Retry-After": "20"} if status == 429 else {}
        text = said or SAID[status]
        response = httpx.Response(status, json={"error": text}, headers=headers, request=request)
        told = f"{text} ({response.reason_phrase}: {request.method} {request.url})"
        raise httpx.HTTPStatusError(told, request=request, response=response)
