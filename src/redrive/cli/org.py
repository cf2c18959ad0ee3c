"""`redrive org`: the organizations of an installation."""

from __future__ import annotations

from shlex import quote

import click

from redrive.cli.asking import dry_run_option, would
from redrive.cli.client import Client
from redrive.cli.ordered import OrderedGroup
from redrive.cli.reach import reach_options
from redrive.cli.table import Column, output_option, show_rows
from redrive.cli.text import ago, notice

PATH = "/api/v1/organizations"

COLUMNS = ("name", "title", Column("created_at", "created", ago), Column("created_by", "by"))


@click.group(cls=OrderedGroup)
def org() -> None:
    """Organizations: create, list.

    Each has work, members and keys of its own. The one named default owns the installation.
    """


@org.command()
@click.argument("name")
@click.option("--title", default="", help="What people call it.")
@dry_run_option
@reach_options(creates=True)
def create(client: Client, name: str, title: str, dry_run: bool) -> None:
    """Create an organization; it has no members at first."""
    if not would(f"create the organization {name!r}", dry_run):
        made = client.post(PATH, {"name": name, "title": title})
        notice(
            f"There is an organization {made['name']!r} now; add members with "
            f"`redrive member add --org {quote(made['name'])}`."
        )


@org.command("list")
@output_option
@reach_options
def list_orgs(client: Client, output: str | None) -> None:
    """List the organizations, by name."""
    show_rows(client.pages(PATH), COLUMNS, output)


def org_of(client: Client) -> str:
    """The organization that a client stands in: that of its key, or the one that was named."""
    return str(client.get("/api/v1/session")["org"])
