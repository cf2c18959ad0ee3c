import asyncio
from datetime import timedelta
from uuid import uuid4

from temporalio import activity, workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker

printer = {"paper": False}


@activity.defn
async def print_label(order: int) -> str:
    if order == 13:
        raise ValueError(f"order {order}: unknown country")
    if not printer["paper"]:
        raise LookupError(f"order {order}: the printer has no paper")
    return f"label {order}"


@workflow.defn
class Label:
    @workflow.run
    async def run(self, order: int) -> str:
        limit, once = timedelta(seconds=10), RetryPolicy(maximum_attempts=1)
        return await workflow.execute_activity(
            print_label, order, start_to_close_timeout=limit, retry_policy=once
        )


async def has_no_paper(client: Client, workflow_id: str) -> bool:
    try:
        await client.get_workflow_handle(workflow_id).result()
    except WorkflowFailureError as error:
        return "has no paper" in str(error.cause.__cause__)
    return False


async def main() -> None:
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    async with Worker(client, task_queue="labels", workflows=[Label], activities=[print_label]):
        for order in range(20):
            await client.start_workflow(Label.run, order, id=f"label-{order}", task_queue="labels")
        query = "WorkflowType = 'Label' AND ExecutionStatus = 'Failed'"
        while (await client.count_workflows(query)).count < 20:
            await asyncio.sleep(0.1)

        failed = [execution.id async for execution in client.list_workflows(query)]
        without_paper = [name for name in failed if await has_no_paper(client, name)]
        print(len(without_paper), "labels failed without paper")

        printer["paper"] = True
        for name in without_paper:
            request = ResetWorkflowExecutionRequest(
                namespace=client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=name),
                workflow_task_finish_event_id=4,  # of the first workflow task
                reason="new paper",
                request_id=str(uuid4()),
            )
            await client.workflow_service.reset_workflow_execution(request)
        results = [await client.get_workflow_handle(name).result() for name in without_paper]
        print(len(results), "are printed now")


if __name__ == "__main__":
    asyncio.run(main())
