"""A small application for trying out an installation. Replace it with yours."""

from redrive import FinalError, Redrive

app = Redrive()  # the settings name its database


@app.task(max_attempts=4)
async def greet(name: str) -> str:
    return f"hello, {name}"


@app.task
async def charge(order: int) -> str:
    raise FinalError(f"the card of order {order} was declined")
