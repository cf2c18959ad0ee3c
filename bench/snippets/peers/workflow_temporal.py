import asyncio
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker


@activity.defn
async def reserve(order: int) -> str:
    return f"shelf A-{order}"


@activity.defn
async def charge(order: int) -> str:
    return f"receipt {order}"


@activity.defn
async def ship(shelf: str, receipt: str) -> str:
    return f"{shelf} is shipped, {receipt}"


@workflow.defn
class Checkout:
    @workflow.run
    async def run(self, order: int) -> str:
        limit = timedelta(seconds=10)
        shelf = await workflow.execute_activity(reserve, order, start_to_close_timeout=limit)
        receipt = await workflow.execute_activity(charge, order, start_to_close_timeout=limit)
        return await workflow.execute_activity(ship, args=[shelf, receipt], start_to_close_timeout=limit)


async def main() -> None:
    client = await Client.connect(**ClientConfig.load_client_connect_config())  # TEMPORAL_ADDRESS
    async with Worker(client, task_queue="shop", workflows=[Checkout], activities=[reserve, charge, ship]):
        handle = await client.start_workflow(Checkout.run, 7, id="order-7", task_queue="shop")
        print(await handle.result())


if __name__ == "__main__":
    asyncio.run(main())
