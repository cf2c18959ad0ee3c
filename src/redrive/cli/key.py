"""`redrive key`: the API keys of an organization."""

from __future__ import annotations

import click

from redrive.cli.checks import confirm, report_dry_run
from redrive.cli.client import Client, segment
from redrive.cli.commands import CommandGroup
from redrive.cli.connection import api_options
from redrive.cli.member import organization, role_option
from redrive.cli.options import DurationParam, dry_run_option, output_option, yes_option
from redrive.cli.output import JSON, show_json, show_rows
from redrive.cli.table import Row, TableColumn, ago
from redrive.cli.terminal import notice, out
from redrive.model.role import Role
from redrive.policy.bounds import MAX_DELAY_SECONDS
from redrive.policy.credential import checked_scopes

PATH = "/api/v1/keys"
LIFETIME = DurationParam(60.0, 10 * MAX_DELAY_SECONDS)
GRACE = DurationParam(0.0, 30 * 86_400.0)

COLUMNS = (
    "name",
    "role",
    "scopes",
    TableColumn("expires_at", "expires", ago),
    TableColumn("last_used_at", "last used", ago),
    TableColumn("revoked_at", "revoked", ago),
    TableColumn("id", whole=True),
)


@click.group(cls=CommandGroup)
def key() -> None:
    """API keys: create, list, rotate, revoke.

    A key belongs to one organization and has a role in it, for programs that use the API.
    """


@key.command()
@click.argument("name")
@role_option
@click.option(
    "--scope", "scopes", multiple=True, help="Limit it to this permission of its role; can be repeated."
)
@click.option("--expires", type=LIFETIME, metavar="LENGTH", help="When it ends by itself, such as 90d.")
@dry_run_option
@output_option
@api_options(creates=True)
def create(
    client: Client,
    name: str,
    role: str,
    scopes: tuple[str, ...],
    expires: float | None,
    dry_run: bool,
    output: str | None,
) -> None:
    """Create a key, and write it to stdout, this once."""
    wanted = Role.parse(role)
    checked_scopes(scopes or None, wanted)
    org = organization(client)
    if not report_dry_run(f"create the key {name!r} of {org} as {wanted}", dry_run):
        body = {"name": name, "role": wanted, "scopes": list(scopes) or None, "expires_in_seconds": expires}
        _show_new(client.post(PATH, body), org, output)


@key.command("list")
@output_option
@api_options
def list_keys(client: Client, output: str | None) -> None:
    """List the keys, the newest first; of the keys themselves nothing is kept that could be shown."""
    show_rows(client.pages(PATH), COLUMNS, output, empty="There are no keys.")


@key.command()
@click.argument("which", metavar="NAME|ID")
@click.option(
    "--grace",
    type=GRACE,
    default="1h",
    show_default=True,
    metavar="LENGTH",
    help="How long the key as it was stays valid beside the new one; 0 ends it at once.",
)
@click.option("--expires", type=LIFETIME, metavar="LENGTH", help="When the new one ends by itself.")
@dry_run_option
@output_option
@api_options
def rotate(
    client: Client, which: str, grace: float, expires: float | None, dry_run: bool, output: str | None
) -> None:
    """Give a key another secret, and write it to stdout, this once."""
    found, org = client.get(f"{PATH}/{segment(which)}"), organization(client)
    if not report_dry_run(f"rotate the key {found['name']!r} of {org}", dry_run):
        body = {"grace_seconds": grace, "expires_in_seconds": expires}
        _show_new(client.post(f"{PATH}/{found['id']}/rotate", body), org, output)


@key.command()
@click.argument("which", metavar="NAME|ID")
@dry_run_option
@yes_option
@api_options
def revoke(client: Client, which: str, dry_run: bool, yes: bool) -> None:
    """Revoke a key, for ever and at once."""
    found, org = client.get(f"{PATH}/{segment(which)}"), organization(client)
    what = f"revoke the key {found['name']!r}, {found['role']}, of {org} on {client.where}"
    if confirm(what, dry_run=dry_run, yes=yes):
        client.delete(f"{PATH}/{found['id']}")
        notice(f"The key {found['name']!r} of {org} is revoked.")


def _show_new(made: Row, org: str, output: str | None) -> None:
    key = made["key"]
    if output in JSON:
        show_json({**key, "key": made["text"]}, output)
    else:
        out(made["text"])
    until = "" if key["expires_at"] is None else f", valid until {key['expires_at']}"
    notice(f"This is the key {key['name']!r} of {org}, {key['role']}{until}. It is not shown again.")
