"""`redrive org`: the organizations of an installation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from redrive.cli.asking import agreed, dry_run_option
from redrive.cli.given import Given, settings_options
from redrive.cli.office import all_of, in_directory
from redrive.cli.table import output_option, show_rows
from redrive.cli.text import instant, notice
from redrive.model.identity import HOME

if TYPE_CHECKING:
    from redrive.model.identity import Organization

COLUMNS = ("name", "title", "created_at", "created_by")


@click.group()
def org() -> None:
    """Organizations: create, list.

    Each has work, members and keys of its own. The one named default owns the installation.
    """


@org.command()
@click.argument("name")
@click.option("--title", default="", help="What people call it.")
@dry_run_option
@settings_options
@click.pass_obj
def create(given: Given, name: str, title: str, dry_run: bool) -> None:
    """Create an organization; it has no members at first."""
    if agreed(f"create the organization {name!r}", dry_run=dry_run):
        made = in_directory(given, HOME, lambda directory: directory.organizations.create(name, title))
        notice(
            f"There is an organization {made.name!r} now; add members with "
            f"`redrive member add --org {made.name}`."
        )


@org.command("list")
@output_option
@settings_options
@click.pass_obj
def list_orgs(given: Given, output: str | None) -> None:
    """List the organizations, by name."""
    show_rows(
        [
            _row(each)
            for each in in_directory(given, HOME, lambda directory: all_of(directory.organizations.list))
        ],
        COLUMNS,
        output,
    )


def _row(organization: Organization) -> dict[str, Any]:
    return {**organization._asdict(), "created_at": instant(organization.created_at)}
