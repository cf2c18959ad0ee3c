"""`redrive migrate`: upgrade the tables, or report what an upgrade would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from redrive.cli.connection import run_on_database
from redrive.cli.options import GlobalOptions, dry_run_option, output_option, settings_options
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.output import show_rows
from redrive.cli.terminal import notice
from redrive.parts import parts_of

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.doctor.version import DatabaseVersion

COLUMNS = ("version", "name", "state")


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit with 6 if migrations are pending.")
@click.option(
    "--print-sql",
    is_flag=True,
    help="Print the statements that an administrator of PostgreSQL has to run, because the database user may "
    "not; change nothing.",
)
@dry_run_option
@output_option
@settings_options
@click.pass_obj
def migrate(given: GlobalOptions, output: str | None, check: bool, print_sql: bool, dry_run: bool) -> None:
    """Upgrade the tables of the database.

    An application also does this when it starts; in a deployment, run it before new workers start. Migrations
    only go forward, and either all of them are applied or none. A missing SQLite database is created. Workers
    can keep running, except while a database of Redrive 0.1 is converted: stop them first.
    """
    if print_sql:
        _print_administrator_statements(given)
        return
    done = not (check or dry_run)

    async def apply(app: Redrive) -> DatabaseVersion:
        from redrive.doctor.version import read_version

        found = await read_version(parts_of(app).database)
        if done and found.missing:
            pause = " Workers wait until it is done." if found.version else ""
            what = _what(found)
            notice(f"About to {what}.{pause}")
            await app.open()
        return found

    found = run_on_database(given, apply)
    if not found.missing:
        show_rows([], COLUMNS, output)
        notice(f"Database {found.place} is up to date (version {found.newest}).")
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
        raise CommandExit(Exit.CONFLICT)
    if done:
        notice(f"Database {found.place} is now at version {found.newest}.")


def _print_administrator_statements(given: GlobalOptions) -> None:
    async def read(app: Redrive) -> list[str]:
        from redrive.doctor.version import administrator_statements

        return await administrator_statements(parts_of(app).database)

    statements = run_on_database(given, read)
    for statement in statements:
        click.echo(f"{statement};")
    if not statements:
        notice("An administrator has nothing to do: the database user has all rights that Redrive needs.")


def _what(found: DatabaseVersion) -> str:
    if found.schema is None:
        return f"create database {found.place} at version {found.newest}"
    if not found.version:
        return f"create the tables in database {found.place} at version {found.newest}"
    return f"upgrade database {found.place} from version {found.version} to {found.newest}"
