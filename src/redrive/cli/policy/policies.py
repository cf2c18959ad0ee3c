"""Policies in use: of an application, or of the runs that the database has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from redrive.cli.connection import database_settings
from redrive.cli.local_transport import no_database, refuse_old_tables
from redrive.cli.options import GlobalOptions
from redrive.errors import NotFoundError
from redrive.model.identity import OPERATOR
from redrive.words.suggestion import suggest

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.engine.definition import Definition
    from redrive.policy.retry import RetryPolicy

T = TypeVar("T")


class PolicyInUse(NamedTuple):
    """A policy, and the step that has it."""

    workflow: str
    step: str
    task: str
    policy: RetryPolicy

    @property
    def name(self) -> str:
        return self.step if self.workflow == self.step else f"{self.workflow}.{self.step}"


def of_application(target: str) -> list[PolicyInUse]:
    from redrive.cli.application import application_at

    return _policies(application_at(target).registry.workflows.values())


def of_database(given: GlobalOptions, org: str) -> list[PolicyInUse]:
    async def read(app: Redrive) -> list[PolicyInUse]:
        from redrive.failures.what_if import newest_definitions

        return _policies(await newest_definitions(app.store, org))

    return run_on_database(given, org, read)


def run_on_database(given: GlobalOptions, org: str, action: Callable[[Redrive], Awaitable[T]]) -> T:
    """Run the action on the database of the settings; a missing one is not made."""
    from redrive.app import Redrive  # slow to import, so only where it is needed
    from redrive.doctor.version import missing_file

    app = Redrive(settings=database_settings(given), log=False)
    if (missing := missing_file(app.database)) is not None:
        raise no_database(missing)

    async def run() -> T:
        await refuse_old_tables(app)
        async with app:
            directory = await app.directory(org=org, by=OPERATOR)
            await directory.organizations.get()  # an empty answer would not tell that its name is wrong
            return await action(app)

    return asyncio.run(run())


def of_work(policies: list[PolicyInUse], work: str | None, where: str) -> list[PolicyInUse]:
    """Those of a task, a workflow, or a step of one, WORKFLOW.STEP; all of them if none is named."""
    if work is None:
        return policies
    found = [used for used in policies if work in (used.workflow, used.name, used.task)]
    if not found:
        names = {name for used in policies for name in (used.name, used.workflow)}
        raise NotFoundError(f"{where} has no task, workflow or step {work!r}; {suggest(work, names)}")
    return found


def _policies(definitions: Iterable[Definition]) -> list[PolicyInUse]:
    return [
        PolicyInUse(definition.workflow, step.name, step.task, step.retry)
        for definition in definitions
        for step in definition.steps
    ]
