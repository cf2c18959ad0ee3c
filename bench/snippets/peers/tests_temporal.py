import asyncio
import os
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker


@activity.defn
async def fetch(city: str) -> str:
    if activity.info().attempt < 3:
        raise ConnectionError("no answer")
    return f"sunny in {city}"


@workflow.defn
class Report:
    @workflow.run
    async def run(self, city: str) -> str:
        return await workflow.execute_activity(fetch, city, start_to_close_timeout=timedelta(seconds=10))


async def test_a_weather_report() -> None:
    server = os.environ.get("TEMPORAL_TEST_SERVER")  # a path; downloaded without one
    async with (
        await WorkflowEnvironment.start_time_skipping(test_server_existing_path=server) as env,
        Worker(env.client, task_queue="weather", workflows=[Report], activities=[fetch]),
    ):
        hour, before = timedelta(hours=1), await env.get_current_time()
        handle = await env.client.start_workflow(
            Report.run, "Oslo", id="report-1", task_queue="weather", start_delay=hour
        )
        print(await handle.result())
        assert await env.get_current_time() >= before + hour


if __name__ == "__main__":
    asyncio.run(test_a_weather_report())
