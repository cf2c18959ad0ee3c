"""`redrive key`: the API keys of an organization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from redrive.cli.asking import agreed, dry_run_option, yes_option
from redrive.cli.duration import DURATION
from redrive.cli.given import Given, settings_options
from redrive.cli.office import all_of, in_directory, org_option
from redrive.cli.table import output_option, show_json, show_rows
from redrive.cli.text import instant, notice, out
from redrive.model.role import Role
from redrive.policy.credential import checked_scopes

if TYPE_CHECKING:
    from redrive.model.identity import ApiKey, NewKey

COLUMNS = ("name", "role", "scopes", "expires_at", "last_used_at", "revoked_at", "id")


@click.group()
def key() -> None:
    """API keys: create, list, rotate, revoke.

    A key belongs to one organization and has a role in it, for programs that use the API.
    """


@key.command()
@click.argument("name")
@click.option("--role", required=True, help="VIEWER, STAFF, ADMIN or OWNER.")
@click.option(
    "--scope", "scopes", multiple=True, help="Limit it to this permission of its role; can be repeated."
)
@click.option("--expires", type=DURATION, metavar="LENGTH", help="When it ends by itself, such as 90d.")
@org_option
@dry_run_option
@output_option
@settings_options
@click.pass_obj
def create(
    given: Given,
    name: str,
    role: str,
    scopes: tuple[str, ...],
    expires: float | None,
    org: str,
    dry_run: bool,
    output: str | None,
) -> None:
    """Create a key, and write it to stdout, this once."""
    wanted = Role.parse(role)
    checked_scopes(scopes or None, wanted)
    if agreed(f"create the key {name!r} of {org} as {wanted}", dry_run=dry_run):
        made = in_directory(
            given,
            org,
            lambda directory: directory.keys.create(name, wanted, scopes=scopes or None, expires_in=expires),
        )
        _show_new(made, output)


@key.command("list")
@org_option
@output_option
@settings_options
@click.pass_obj
def list_keys(given: Given, org: str, output: str | None) -> None:
    """List the keys, the newest first; of the keys themselves nothing is kept that could be shown."""
    rows = [_row(each) for each in in_directory(given, org, lambda directory: all_of(directory.keys.list))]
    show_rows(rows, COLUMNS, output)


@key.command()
@click.argument("which", metavar="NAME|ID")
@click.option(
    "--grace",
    type=DURATION,
    default="1h",
    show_default=True,
    metavar="LENGTH",
    help="How long the key as it was stays valid beside the new one; 0s ends it at once.",
)
@click.option("--expires", type=DURATION, metavar="LENGTH", help="When the new one ends by itself.")
@org_option
@dry_run_option
@output_option
@settings_options
@click.pass_obj
def rotate(
    given: Given,
    which: str,
    grace: float,
    expires: float | None,
    org: str,
    dry_run: bool,
    output: str | None,
) -> None:
    """Give a key another secret, and write it to stdout, this once."""
    found = in_directory(given, org, lambda directory: directory.keys.get(which))
    if agreed(f"rotate the key {found.name!r} of {org}", dry_run=dry_run):
        made = in_directory(
            given,
            org,
            lambda directory: directory.keys.rotate(found.id, grace_seconds=grace, expires_in=expires),
        )
        _show_new(made, output)


@key.command()
@click.argument("which", metavar="NAME|ID")
@org_option
@dry_run_option
@yes_option
@settings_options
@click.pass_obj
def revoke(given: Given, which: str, org: str, dry_run: bool, yes: bool) -> None:
    """Revoke a key, for ever and at once."""
    found = in_directory(given, org, lambda directory: directory.keys.get(which))
    if agreed(f"revoke the key {found.name!r} of {org}, {found.role}", dry_run=dry_run, yes=yes):
        in_directory(given, org, lambda directory: directory.keys.revoke(found.id))
        notice(f"The key {found.name!r} of {org} is revoked.")


def _show_new(made: NewKey, output: str | None) -> None:
    if output == "json":
        show_json(_row(made.key) | {"key": made.text})
    else:
        out(made.text)
    until = "" if made.key.expires_at is None else f", valid until {instant(made.key.expires_at)}"
    notice(
        f"This is the key {made.key.name!r} of {made.key.org}, {made.key.role}{until}. It is not shown again."
    )


def _row(key: ApiKey) -> dict[str, Any]:
    times = {name: instant(value) for name, value in key._asdict().items() if name.endswith("_at")}
    return {**key._asdict(), "scopes": None if key.scopes is None else list(key.scopes), **times}
