"""`redrive member` and `redrive org`: manage organizations and their members."""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec
from shlex import quote
from typing import TYPE_CHECKING

import click

from redrive.cli.checks import confirm, report_dry_run
from redrive.cli.client import Client, segment
from redrive.cli.commands import CommandGroup
from redrive.cli.connection import api_options
from redrive.cli.options import DurationParam, GlobalOptions, dry_run_option, output_option, yes_option
from redrive.cli.output import JSON, show_json, show_rows
from redrive.cli.table import TableColumn, ago
from redrive.cli.terminal import notice, out
from redrive.errors import InvalidValueError, RedriveError
from redrive.model.identity import HOME, OPERATOR
from redrive.model.role import Role
from redrive.policy.credential import checked_password, user_name

if TYPE_CHECKING:
    from redrive.settings import Settings

PATH, ORGANIZATIONS = "/api/v1/members", "/api/v1/organizations"
VALIDITY = DurationParam(60.0, 7 * 86_400.0)

COLUMNS = (
    "name",
    "role",
    "active",
    "disabled",
    TableColumn("created_at", "since", ago),
    TableColumn("created_by", "added by"),
)

ORG_COLUMNS = ("name", "title", TableColumn("created_at", "created", ago), TableColumn("created_by", "by"))

role_option = click.option(
    "--role", required=True, metavar="ROLE", help="Role: VIEWER, STAFF, ADMIN or OWNER."
)
password_option = click.option(
    "--password",
    is_flag=True,
    help="Set a password: asked on a terminal, otherwise the first line of stdin.",
)


@click.group(cls=CommandGroup)
def member() -> None:
    """Manage members: add, list, change, remove, or create a sign-in link.

    A member is a person who signs in with a name and has a role in an organization.
    """


@member.command()
@click.argument("name")
@role_option
@password_option
@dry_run_option
@api_options(creates=True)
def add(client: Client, name: str, role: str, password: bool, dry_run: bool) -> None:
    """Add a member to the organization.

    Without a password, the member signs in with a link or another configured method.
    """
    if password:
        _require_database(client)
    known, wanted, org = user_name(name), Role.parse(role), organization(client)
    if report_dry_run(f"add {known!r} to organization {org!r} as {wanted}", dry_run):
        return
    secret = _read_password() if password else None
    added = client.post(PATH, {"name": known, "role": wanted})
    if secret is not None:
        _set_password(added["id"], secret)
    notice(f"Added {added['name']} to organization {org!r} as {added['role']}.")
    if secret is None:
        place = f" --org {quote(org)}" if client.server is None and org != HOME else ""
        notice(f"Create a sign-in link with `redrive member link {added['name']}{place}`.")


@member.command("list")
@output_option
@api_options
def list_members(client: Client, output: str | None) -> None:
    """List members, sorted by name."""
    show_rows(client.pages(PATH), COLUMNS, output, empty="No members.")


@member.command()
@click.argument("name")
@click.option("--role", metavar="ROLE", help="New role: VIEWER, STAFF, ADMIN or OWNER.")
@click.option("--active/--inactive", default=None, help="Allow or block access to this organization.")
@password_option
@dry_run_option
@api_options
def change(
    client: Client, name: str, role: str | None, active: bool | None, password: bool, dry_run: bool
) -> None:
    """Change the role, access or password of a member."""
    if role is None and active is None and not password:
        raise click.UsageError("Pass what to change: --role, --active, --inactive or --password.")
    if password:
        _require_database(client)
    wanted = None if role is None else Role.parse(role)
    before, org = client.request("GET", f"{PATH}/{segment(name)}"), organization(client)
    if report_dry_run(f"change member {before.value['name']!r} of organization {org!r}", dry_run):
        return
    secret = _read_password() if password else None
    after = before.value
    if wanted is not None or active is not None:
        body = {"role": wanted, "active": active}
        after = client.patch(f"{PATH}/{after['id']}", body, if_match=before.headers["etag"])
    if secret is not None:
        _set_password(after["id"], secret)
    access = "active" if after["active"] else "inactive"
    notice(f"Changed {after['name']} in organization {org!r}: {after['role']}, {access}.")


@member.command()
@click.argument("name")
@dry_run_option
@yes_option
@api_options
def remove(client: Client, name: str, dry_run: bool, yes: bool) -> None:
    """Remove a member from the organization. The account is kept."""
    (_, headers, found), org = client.request("GET", f"{PATH}/{segment(name)}"), organization(client)
    what = f"remove {found['name']!r} ({found['role']}) from organization {org!r}"
    if confirm(what, client.where, dry_run=dry_run, yes=yes):
        client.delete(f"{PATH}/{found['id']}", if_match=headers["etag"])
        notice(f"Removed {found['name']} from organization {org!r}.")


@member.command()
@click.argument("name")
@click.option(
    "--valid",
    type=VALIDITY,
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="How long the link is valid.",
)
@dry_run_option
@output_option
@api_options
def link(client: Client, name: str, valid: float, dry_run: bool, output: str | None) -> None:
    """Create a one-time sign-in link for a member and print it.

    Anyone with the link can sign in as that member. Send it over a private channel.
    """
    given = click.get_current_context().ensure_object(GlobalOptions)
    address = _address(given.settings()) if client.server is None else None
    found, org = client.request("GET", f"{PATH}/{segment(name)}").value, organization(client)
    if report_dry_run(f"create a sign-in link for {found['name']!r} of organization {org!r}", dry_run):
        return
    made = client.post(f"{PATH}/{found['id']}/link", {"minutes": valid / 60.0})
    if address is not None:  # without a server, the API doesn't know the public address
        made["url"] = f"{address}/app/sign-in#{made['url'].partition('#')[2]}"
    if output in JSON:
        show_json(made, output)
    else:
        out(made["url"])
    notice(f"Sign-in link for {made['name']}: works once, expires {made['expires_at']}.")


@click.group(cls=CommandGroup)
def org() -> None:
    """Manage organizations: create, list.

    Each organization has its own work, members and keys. The organization `default` owns the installation.
    """


@org.command()
@click.argument("name")
@click.option("--title", default="", metavar="TITLE", help="Name to show to people.")
@dry_run_option
@api_options(creates=True)
def create(client: Client, name: str, title: str, dry_run: bool) -> None:
    """Create an organization, without members."""
    if not report_dry_run(f"create organization {name!r}", dry_run):
        made = client.post(ORGANIZATIONS, {"name": name, "title": title})
        notice(f"Created organization {made['name']!r}.")
        notice(f"Add members with `redrive member add NAME --role ROLE --org {quote(made['name'])}`.")


@org.command("list")
@output_option
@api_options
def list_orgs(client: Client, output: str | None) -> None:
    """List organizations, sorted by name."""
    show_rows(client.pages(ORGANIZATIONS), ORG_COLUMNS, output)


def organization(client: Client) -> str:
    """Return the organization of the client's key, or the one given with --org."""
    return str(client.get("/api/v1/session")["org"])


def _address(settings: Settings) -> str:
    """Return the address of the server of these settings."""
    if settings.server_url is not None:
        return settings.server_url
    if settings.server_port == 0:
        raise InvalidValueError("with server_port 0 the address of the server is unknown; set server_url")
    host = f"[{settings.server_host}]" if ":" in settings.server_host else settings.server_host
    return f"http://{host}:{settings.server_port}"


def _require_database(client: Client) -> None:
    """Reject setting a password over HTTP, where members set their own."""
    if client.server is not None:
        raise InvalidValueError(
            "--password needs access to the database; without it, create a sign-in link with "
            "`redrive member link`, and the member can set a password"
        )


def _read_password() -> str:
    """Ask for the password twice on a terminal, else read the first line of stdin."""
    if find_spec("argon2") is None:  # report it before changing anything
        raise RedriveError(
            "passwords need argon2-cffi, which is not installed: pip install 'redrive[server]'"
        )
    if sys.stdin.isatty():
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    return checked_password(text)


def _set_password(user_id: str, secret: str) -> None:
    """Set the password in the configured database, as the operator."""
    from redrive.app import Redrive  # slow to import, so only where it is needed

    given = click.get_current_context().ensure_object(GlobalOptions)

    async def set_password() -> None:
        async with Redrive(settings=given.settings(), log=False) as app:
            members = app.members(org=given.org or HOME, by=OPERATOR)
            await members.accounts.set_password(user_id, secret)

    asyncio.run(set_password())
