"""The services of others that Acme depends on, over HTTP."""

from __future__ import annotations

import os
from typing import Any

from redrive import AsyncHttpClient, Context

URL, TOKEN = "ACME_OUTSIDE", "ACME_TOKEN"
SERVICES = ("payments", "carrier", "mail", "identity", "supplier", "analytics")


class Outside:
    """One request an attempt: steps bring their own retries and breakers."""

    def __init__(self, url: str, token: str) -> None:
        self._clients = {
            name: AsyncHttpClient(f"{url}/{name}", max_attempts=1, dependency=None, timeout=2.0, token=token)
            for name in SERVICES
        }

    @classmethod
    def of_environment(cls) -> Outside:
        return cls(os.environ[URL], os.environ[TOKEN])

    async def post(self, service: str, path: str, body: dict[str, Any], context: Context) -> Any:
        """The key is the same on every attempt of a step, so that nothing is done twice."""
        client = self._clients[service]
        return await client.request("POST", path, json=body, idempotency_key=context.idempotency_key)

    async def get(self, service: str, path: str, reference: str, timeout: float = 2.0) -> Any:
        params = {"reference": reference}
        return await self._clients[service].request("GET", path, params=params, timeout=timeout)

    async def is_back(self, service: str) -> None:
        """A probe: raises as long as it is not."""
        await self._clients[service].request("GET", "/health")
