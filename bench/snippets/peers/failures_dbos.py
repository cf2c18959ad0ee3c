import os
from contextlib import suppress

from dbos import DBOS

printer = {"paper": False}


@DBOS.step()
def print_label(order: int) -> str:
    if order == 13:
        raise ValueError(f"order {order}: unknown country")
    if not printer["paper"]:
        raise LookupError(f"order {order}: the printer has no paper")
    return f"label {order}"


@DBOS.workflow()
def label(order: int) -> str:
    return print_label(order)


DBOS(config={"name": "shop", "system_database_url": os.environ["DATABASE_URL"]})
DBOS.launch()
for handle in [DBOS.start_workflow(label, order) for order in range(20)]:
    with suppress(LookupError, ValueError):
        handle.get_result()

failed = DBOS.list_workflows(status="ERROR", name="label")
without_paper = [workflow for workflow in failed if "has no paper" in str(workflow.error)]
print(len(without_paper), "labels failed without paper")

printer["paper"] = True
forks = [DBOS.fork_workflow(workflow.workflow_id, start_step=1) for workflow in without_paper]
print(len([fork.get_result() for fork in forks]), "are printed now")
DBOS.destroy()
