"""The services of other companies that Acme calls over HTTP."""

from __future__ import annotations

import os
from typing import Any

from redrive import AsyncHttpClient, Context

URL, TOKEN = "ACME_SERVICES_URL", "ACME_TOKEN"
SERVICES = ("payments", "carrier", "mail", "identity", "supplier", "analytics")


class Services:
    """One HTTP client per service. Clients don't retry: the steps have retries and breakers."""

    def __init__(self, url: str, token: str) -> None:
        self._clients = {
            name: AsyncHttpClient(f"{url}/{name}", max_attempts=1, dependency=None, timeout=2.0, token=token)
            for name in SERVICES
        }

    @classmethod
    def from_environment(cls) -> Services:
        return cls(os.environ[URL], os.environ[TOKEN])

    async def post(self, service: str, path: str, body: dict[str, Any], context: Context) -> Any:
        """Send the step's idempotency key. All attempts send the same key, so that the service acts once."""
        client = self._clients[service]
        return await client.request("POST", path, json=body, idempotency_key=context.idempotency_key)

    async def get(self, service: str, path: str, reference: str, timeout: float = 2.0) -> Any:
        params = {"reference": reference}
        return await self._clients[service].request("GET", path, params=params, timeout=timeout)

    async def probe(self, service: str) -> None:
        """Raise unless the service is healthy. Breakers call this before they admit work again."""
        await self._clients[service].request("GET", "/health")
