"""One task, from start to result, in one file.

python examples/job.py
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass

from redrive import Backoff, Context, Redrive, RetryPolicy
from redrive.policy import Exponential
from redrive.words import explain

QUICK = RetryPolicy(max_attempts=5, backoff=Backoff(Exponential(base=0.5)))

app = Redrive(f"sqlite:///{tempfile.mkdtemp()}/work.db")


@dataclass
class Letter:
    to: str
    text: str


@app.task(retry=QUICK, timeout=10.0)
async def send(context: Context, letter: Letter) -> str:
    if context.attempt < 3:
        raise ConnectionResetError("the post office hung up")
    return f"sent to {letter.to} on attempt {context.attempt}, with key {context.idempotency_key}"


async def main() -> None:
    async with app, app.worker():
        run = await app.start(send, Letter("Ada", "Dear Ada, …"), key="letter-7")
        print(await run.result(timeout=30))
        for attempt in (await run.history()).attempts:
            print(f"  attempt {attempt.number}: {attempt.outcome}; {explain(attempt.decision)}")


if __name__ == "__main__":
    asyncio.run(main())
