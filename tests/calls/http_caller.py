"""One interface to both HTTP clients, so every test of them runs sync and async."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from redrive import AsyncHttpClient, HttpClient


class Caller(Protocol):
    def request(self, method: str, path: str, **options: Any) -> Any: ...

    def close(self) -> None: ...


class SyncCaller:
    def __init__(self, base_url: str, **options: Any) -> None:
        self.client = HttpClient(base_url, **options)

    def request(self, method: str, path: str, **options: Any) -> Any:
        return self.client.request(method, path, **options)

    def close(self) -> None:
        self.client.close()


class AsyncCaller:
    """Runs each request to its end on a new event loop."""

    def __init__(self, base_url: str, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self.client = AsyncHttpClient(base_url, **options)

    def request(self, method: str, path: str, **options: Any) -> Any:
        return self._runner.run(self.client.request(method, path, **options))

    def close(self) -> None:
        self._runner.run(self.client.aclose())
        self._runner.close()
