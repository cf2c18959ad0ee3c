"""`redrive key`: manage the API keys of an organization."""

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
    """Manage API keys: create, list, rotate, revoke.

    A program uses a key to call the API. A key belongs to one organization and has a role in it.
    """


@key.command()
@click.argument("name")
@role_option
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="PERMISSION",
    help="Limit the key to this permission of its role; repeatable.",
)
@click.option(
    "--expires",
    type=LIFETIME,
    metavar="DURATION",
    help="Expire after this long, such as 90d. Default: never.",
)
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
    """Create an API key and print it, once."""
    wanted = Role.parse(role)
    checked_scopes(scopes or None, wanted)
    org = organization(client)
    if not report_dry_run(f"create API key {name!r} for organization {org!r} with role {wanted}", dry_run):
        body = {"name": name, "role": wanted, "scopes": list(scopes) or None, "expires_in_seconds": expires}
        _show_new(client.post(PATH, body), org, output)


@key.command("list")
@output_option
@api_options
def list_keys(client: Client, output: str | None) -> None:
    """List API keys, newest first. The keys themselves are not stored and can't be shown."""
    show_rows(client.pages(PATH), COLUMNS, output, empty="No API keys.")


@key.command()
@click.argument("which", metavar="NAME|ID")
@click.option(
    "--grace",
    type=GRACE,
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="Keep the old key valid for this long; 0 revokes it immediately.",
)
@click.option("--expires", type=LIFETIME, metavar="DURATION", help="Expire the new key after this long.")
@dry_run_option
@output_option
@api_options
def rotate(
    client: Client, which: str, grace: float, expires: float | None, dry_run: bool, output: str | None
) -> None:
    """Replace an API key's secret and print the new key, once."""
    found, org = client.get(f"{PATH}/{segment(which)}"), organization(client)
    if not report_dry_run(f"rotate API key {found['name']!r} of organization {org!r}", dry_run):
        body = {"grace_seconds": grace, "expires_in_seconds": expires}
        _show_new(client.post(f"{PATH}/{found['id']}/rotate", body), org, output)


@key.command()
@click.argument("which", metavar="NAME|ID")
@dry_run_option
@yes_option
@api_options
def revoke(client: Client, which: str, dry_run: bool, yes: bool) -> None:
    """Revoke an API key, permanently and with immediate effect."""
    found, org = client.get(f"{PATH}/{segment(which)}"), organization(client)
    what = f"revoke API key {found['name']!r} ({found['role']}) of organization {org!r}"
    if confirm(what, client.where, dry_run=dry_run, yes=yes):
        client.delete(f"{PATH}/{found['id']}")
        notice(f"Revoked API key {found['name']!r} of organization {org!r}.")


def _show_new(made: Row, org: str, output: str | None) -> None:
    key = made["key"]
    if output in JSON:
        show_json({**key, "key": made["text"]}, output)
    else:
        out(made["text"])
    until = "" if key["expires_at"] is None else f", expires {key['expires_at']}"
    notice(f"API key {key['name']!r} of organization {org!r}, role {key['role']}{until}.")
    notice("Copy it now. It is not shown again.")
