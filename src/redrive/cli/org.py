"""`redrive org`: the organizations of an installation."""

from __future__ import annotations

from shlex import quote

import click

from redrive.cli.client import Client
from redrive.cli.commands import CommandGroup
from redrive.cli.confirmation import dry_run_option, report_dry_run
from redrive.cli.connection import api_options
from redrive.cli.output import TableColumn, output_option, show_rows
from redrive.cli.terminal import notice
from redrive.cli.timestamps import ago

PATH = "/api/v1/organizations"

COLUMNS = ("name", "title", TableColumn("created_at", "created", ago), TableColumn("created_by", "by"))


@click.group(cls=CommandGroup)
def org() -> None:
    """Organizations: create, list.

    Each has work, members and keys of its own. The one named default owns the installation.
    """


@org.command()
@click.argument("name")
@click.option("--title", default="", help="What people call it.")
@dry_run_option
@api_options(creates=True)
def create(client: Client, name: str, title: str, dry_run: bool) -> None:
    """Create an organization; it has no members at first."""
    if not report_dry_run(f"create the organization {name!r}", dry_run):
        made = client.post(PATH, {"name": name, "title": title})
        notice(
            f"There is an organization {made['name']!r} now; add members with "
            f"`redrive member add --org {quote(made['name'])}`."
        )


@org.command("list")
@output_option
@api_options
def list_orgs(client: Client, output: str | None) -> None:
    """List the organizations, by name."""
    show_rows(client.pages(PATH), COLUMNS, output)


def organization(client: Client) -> str:
    """The organization of the client: that of its key, or the one that was named."""
    return str(client.get("/api/v1/session")["org"])
