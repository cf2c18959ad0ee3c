"""Makes an empty namespace on the Temporal server at TEMPORAL_ADDRESS, and prints its name."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig


async def main() -> None:
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    request = RegisterNamespaceRequest(namespace=f"snippets-{uuid4()}")
    request.workflow_execution_retention_period.FromTimedelta(timedelta(days=1))
    await client.workflow_service.register_namespace(request)
    print(request.namespace)


if __name__ == "__main__":
    asyncio.run(main())
