"""The page that starts a run, with a form made from the types of the task."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from redrive.engine.payload_form import payload_form
from redrive.engine.task import MAX_NAME_LENGTH
from redrive.errors import NotFoundError
from redrive.policy.access import Permission
from redrive.server.access_control import may
from redrive.server.admin.page import OnPage, Pages

pages = Pages("run_start")


@pages.get("/runs/new", may(Permission.START))
async def new(page: OnPage, work: Annotated[str, Query(max_length=MAX_NAME_LENGTH)] = "") -> Response:
    """Show the form of a task or workflow, or the list of them. The server knows those of its application."""
    registry, problem, task = page.visit.parts.registry, "", None
    names = sorted(registry.workflows)
    work = work or (names[0] if len(names) == 1 else "")
    if work:
        try:
            task = registry.task(registry.workflow(work).steps[0].task)
        except NotFoundError as error:
            problem = str(error)
    return await page.render(
        "run_start.html",
        place="runs",
        status=404 if problem else 200,
        names=names,
        workflows=[name for name in names if len(registry.workflow(name).steps) > 1],
        tasks=[name for name in names if len(registry.workflow(name).steps) == 1],
        work="" if problem else work,
        steps=[step.name for step in registry.workflow(work).steps] if work and not problem else [],
        fields=None if task is None else payload_form(task.signature),
        problem=problem,
    )
