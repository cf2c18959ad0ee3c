"""Where commands about people and keys do their work: on the database of the settings, as its operator.

Whoever can open the database can do everything anyway; the audit says that it was the operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from redrive.cli.given import Given
from redrive.cli.text import notice
from redrive.model.identity import HOME, OPERATOR

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.engine.directory import Directory

Function = TypeVar("Function", bound=Callable[..., Any])
T = TypeVar("T")

LARGEST_PAGE = 500


def org_option(function: Function) -> Function:
    return click.option(
        "--org", default=HOME, show_default=True, metavar="NAME", help="The organization that it is about."
    )(function)


def in_directory(given: Given, org: str, action: Callable[[Directory], Awaitable[T]]) -> T:
    """Do something with the directory of an organization."""
    from redrive.app import Redrive  # takes longer than all the rest to load, so only where it is needed

    return asyncio.run(_within(Redrive(settings=given.settings(), log=False), org, action))


async def all_of(list_page: Callable[..., Awaitable[tuple[Sequence[T], str | None]]]) -> list[T]:
    """Every page of a list, as one."""
    items, cursor = await list_page(size=LARGEST_PAGE)
    found = list(items)
    while cursor is not None:
        items, cursor = await list_page(size=LARGEST_PAGE, cursor=cursor)
        found += items
    return found


async def _within(app: Redrive, org: str, action: Callable[[Directory], Awaitable[T]]) -> T:
    missing = _missing_file(app)
    async with app:
        if missing is not None:
            notice(f"There was no database {missing}; it was made now.")
        directory = await app.directory(org=org, by=OPERATOR)
        await directory.organizations.get()  # a list of nothing would not tell that its name is wrong
        return await action(directory)


def _missing_file(app: Redrive) -> str | None:
    """A database that has to be made is often one that was looked for in the wrong directory."""
    path: str | None = getattr(app.database, "path", None)
    return None if path is None or Path(path).exists() else path
