import asyncio
import os

from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=os.environ["DATABASE_URL"]))


@app.task
async def charge(order: int, cents: int) -> None:
    print(f"order {order}: {cents / 100:.2f} paid")


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await charge.configure(queueing_lock="order-7").defer_async(order=7, cents=1200)
        await app.run_worker_async(wait=False)  # until nothing is left to do


asyncio.run(main())
