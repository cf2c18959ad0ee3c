"""A worker for test_process to kill: executes the named task of process_tasks, or a task of its own."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tests.engine import process_tasks
from tests.engine.process_tasks import isolated
from tests.engine.process_work import executed

from redrive.engine.task import AnyTask


@isolated
def of_main(payload: Any) -> list[Any]:
    return [payload, __name__]


if __name__ == "__main__":
    name, argument = sys.argv[1:]
    task: AnyTask = of_main if name == "of_main" else getattr(process_tasks, name)
    print(asyncio.run(executed(task, argument)))
