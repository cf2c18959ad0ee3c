"""Where policies in use are found: in an application, or in what the database has of the runs of an org."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from redrive.cli.connection import database_settings
from redrive.cli.local_transport import no_database, refuse_old_tables
from redrive.cli.options import GlobalOptions
from redrive.cli.policy.options import Used, used_by
from redrive.errors import NotFoundError
from redrive.model.identity import OPERATOR

if TYPE_CHECKING:
    from redrive.app import Redrive

T = TypeVar("T")


def of_application(target: str) -> list[Used]:
    from redrive.cli.application import application_at

    return list(used_by(list(application_at(target).registry.workflows.values())))


def of_database(given: GlobalOptions, org: str) -> list[Used]:
    async def read(app: Redrive) -> list[Used]:
        from redrive.failures.what_if import newest_definitions

        return list(used_by(await newest_definitions(app.store, org)))

    return on_database(given, org, read)


def on_database(given: GlobalOptions, org: str, action: Callable[[Redrive], Awaitable[T]]) -> T:
    """Do something on the database of the settings; one that is not there is not made."""
    from redrive.app import Redrive  # takes longer than all the rest to load, so only where it is needed
    from redrive.doctor.database_version import missing_file

    app = Redrive(settings=database_settings(given), log=False)
    if (missing := missing_file(app.database)) is not None:
        raise no_database(missing)
    return asyncio.run(_within(app, org, action))


def chosen(used: list[Used], work: str | None, where: str) -> list[Used]:
    """Those of a task, a workflow, or a step of one, WORKFLOW.STEP."""
    if work is None:
        return used
    found = [each for each in used if work in (each.workflow, each.name, each.task)]
    if not found:
        names = sorted({each.name for each in used} | {each.workflow for each in used})
        close = get_close_matches(work, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names[:10]) or 'none'}"
        raise NotFoundError(f"{where} has no task, workflow or step {work!r}; {hint}")
    return found


async def _within(app: Redrive, org: str, action: Callable[[Redrive], Awaitable[T]]) -> T:
    await refuse_old_tables(app)
    async with app:
        directory = await app.directory(org=org, by=OPERATOR)
        await directory.organizations.get()  # nothing found would not tell that its name is wrong
        return await action(app)
