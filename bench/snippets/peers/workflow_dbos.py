import os

from dbos import DBOS, SetWorkflowID


@DBOS.step()
def reserve(order: int) -> str:
    return f"shelf A-{order}"


@DBOS.step(retries_allowed=True, max_attempts=4)
def charge(order: int) -> str:
    return f"receipt {order}"


@DBOS.step()
def ship(shelf: str, receipt: str) -> str:
    return f"{shelf} is shipped, {receipt}"


@DBOS.workflow()
def checkout(order: int) -> str:
    shelf = reserve(order)
    return ship(shelf, charge(order))


DBOS(config={"name": "shop", "system_database_url": os.environ["DATABASE_URL"]})
DBOS.launch()
with SetWorkflowID("order-7"):
    handle = DBOS.start_workflow(checkout, 7)
print(handle.get_result())
DBOS.destroy()
