"""`redrive migrate`: bring the tables up to date, or say what that would be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from redrive.cli.connection import run_on_database
from redrive.cli.options import GlobalOptions, dry_run_option, output_option, settings_options
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import show_rows
from redrive.cli.terminal import notice
from redrive.parts import parts_of

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.doctor.version import DatabaseVersion

COLUMNS = ("version", "name", "state")


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; end with 6 when something is to be done.")
@dry_run_option
@output_option
@settings_options
@click.pass_obj
def migrate(given: GlobalOptions, output: str | None, check: bool, dry_run: bool) -> None:
    """Bring the tables of the database up to date.

    An application does that by itself when it starts; a deployment does it here, before new workers start.
    Migrations go forward only, all of them or none. A SQLite database that does not exist is made. Workers
    may keep running, except while a database of Redrive 0.1 is converted: stop them first.
    """
    done = not (check or dry_run)

    async def apply(app: Redrive) -> DatabaseVersion:
        from redrive.doctor.version import read_version

        found = await read_version(parts_of(app).database)
        if done and found.missing:
            waits = " Work on it waits until that is done." if found.version else ""
            notice(f"Going to {_what(found)}.{waits}")
            await app.open()
        return found

    found = run_on_database(given, apply)
    if not found.missing:
        show_rows([], COLUMNS, output)
        notice(f"The database {found.place} is up to date (version {found.newest}).")
        return
    state = "applied" if done else "pending"
    rows: list[dict[str, Any]] = [
        {"version": version, "name": name, "state": state} for version, name in found.missing
    ]
    show_rows(rows, COLUMNS, output)
    if not done:
        drain = " Stop all workers and servers of 0.1 first." if found.needs_drained_workers else ""
        notice(f"Would {_what(found)}.{drain}")
    if check:
        raise Ended(Exit.CONFLICT)
    if done:
        notice(f"The database {found.place} is now at version {found.newest}.")


def _what(found: DatabaseVersion) -> str:
    if found.schema is None:
        return f"make the database {found.place}, at version {found.newest}"
    if not found.version:
        return f"make the tables of the database {found.place}, at version {found.newest}"
    return f"bring the database {found.place} from version {found.version} to {found.newest}"
