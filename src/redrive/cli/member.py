"""`redrive member` and `redrive org`: organizations, and who belongs to them as what."""

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

role_option = click.option("--role", required=True, help="VIEWER, STAFF, ADMIN or OWNER.")
password_option = click.option(
    "--password",
    is_flag=True,
    help="Ask for a password; without a terminal it is the first line of the standard input.",
)


@click.group(cls=CommandGroup)
def member() -> None:
    """Members: add, list, change, remove, or give a link to sign in.

    A member is a person who signs in by a name, and has a role in an organization.
    """


@member.command()
@click.argument("name")
@role_option
@password_option
@dry_run_option
@api_options(creates=True)
def add(client: Client, name: str, role: str, password: bool, dry_run: bool) -> None:
    """Add a member. Without a password they sign in by a link, or by what else is set up."""
    if password:
        _require_database(client)
    known, wanted, org = user_name(name), Role.parse(role), organization(client)
    if report_dry_run(f"add {known!r} to {org} as {wanted}", dry_run):
        return
    secret = _read_password() if password else None
    added = client.post(PATH, {"name": known, "role": wanted})
    if secret is not None:
        _set_password(added["id"], secret)
    notice(f"{added['name']} is a member of {org}: {added['role']}.")
    if secret is None:
        place = f" --org {quote(org)}" if client.server is None and org != HOME else ""
        notice(f"`redrive member link {added['name']}{place}` gives a link to sign in by.")


@member.command("list")
@output_option
@api_options
def list_members(client: Client, output: str | None) -> None:
    """List the members, by name."""
    show_rows(client.pages(PATH), COLUMNS, output, empty="There are no members.")


@member.command()
@click.argument("name")
@click.option("--role", help="Another role: VIEWER, STAFF, ADMIN or OWNER.")
@click.option("--active/--inactive", default=None, help="Whether they may act in this organization.")
@password_option
@dry_run_option
@api_options
def change(
    client: Client, name: str, role: str | None, active: bool | None, password: bool, dry_run: bool
) -> None:
    """Change a member: the role, whether they may act, the password."""
    if role is None and active is None and not password:
        raise click.UsageError("Say what is to change: --role, --active, --inactive or --password.")
    if password:
        _require_database(client)
    wanted = None if role is None else Role.parse(role)
    before, org = client.request("GET", f"{PATH}/{segment(name)}"), organization(client)
    if report_dry_run(f"change {before.value['name']!r} of {org}", dry_run):
        return
    secret = _read_password() if password else None
    after = before.value
    if wanted is not None or active is not None:
        body = {"role": wanted, "active": active}
        after = client.patch(f"{PATH}/{after['id']}", body, if_match=before.headers["etag"])
    if secret is not None:
        _set_password(after["id"], secret)
    notice(f"{after['name']} is {after['role']} in {org}, {'active' if after['active'] else 'inactive'}.")


@member.command()
@click.argument("name")
@dry_run_option
@yes_option
@api_options
def remove(client: Client, name: str, dry_run: bool, yes: bool) -> None:
    """Remove a member from the organization; the account stays."""
    (_, headers, found), org = client.request("GET", f"{PATH}/{segment(name)}"), organization(client)
    what = f"remove {found['name']!r}, {found['role']}, from {org} on {client.where}"
    if confirm(what, dry_run=dry_run, yes=yes):
        client.delete(f"{PATH}/{found['id']}", if_match=headers["etag"])
        notice(f"{found['name']} is no member of {org} any more.")


@member.command()
@click.argument("name")
@click.option(
    "--valid",
    type=VALIDITY,
    default="1h",
    show_default=True,
    metavar="LENGTH",
    help="How long it can be used.",
)
@dry_run_option
@output_option
@api_options
def link(client: Client, name: str, valid: float, dry_run: bool, output: str | None) -> None:
    """Write a link to stdout that signs a member in, once.

    Whoever has it can be that member: send it where only they can read it.
    """
    given = click.get_current_context().ensure_object(GlobalOptions)
    address = _address(given.settings()) if client.server is None else None
    found, org = client.request("GET", f"{PATH}/{segment(name)}").value, organization(client)
    if report_dry_run(f"make a link for {found['name']!r} of {org}", dry_run):
        return
    made = client.post(f"{PATH}/{found['id']}/link", {"minutes": valid / 60.0})
    if address is not None:  # without a server there is no request that would tell where it is
        made["url"] = f"{address}/app/sign-in#{made['url'].partition('#')[2]}"
    if output in JSON:
        show_json(made, output)
    else:
        out(made["url"])
    notice(f"It signs {made['name']} in, once, until {made['expires_at']}.")


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
        made = client.post(ORGANIZATIONS, {"name": name, "title": title})
        notice(
            f"There is an organization {made['name']!r} now; add members with "
            f"`redrive member add --org {quote(made['name'])}`."
        )


@org.command("list")
@output_option
@api_options
def list_orgs(client: Client, output: str | None) -> None:
    """List the organizations, by name."""
    show_rows(client.pages(ORGANIZATIONS), ORG_COLUMNS, output)


def organization(client: Client) -> str:
    """Return the organization of the client's key, or the one given with --org."""
    return str(client.get("/api/v1/session")["org"])


def _address(settings: Settings) -> str:
    """Where the server of these settings is found."""
    if settings.server_url is not None:
        return settings.server_url
    if settings.server_port == 0:
        raise InvalidValueError("server_port 0 does not tell where the server is; set server_url")
    host = f"[{settings.server_host}]" if ":" in settings.server_host else settings.server_host
    return f"http://{host}:{settings.server_port}"


def _require_database(client: Client) -> None:
    """Over HTTP people set their own passwords."""
    if client.server is not None:
        raise InvalidValueError(
            "a password can only be set where the database is; without --password, `redrive member link` "
            "gives a link by which they sign in and set their own"
        )


def _read_password() -> str:
    """From the terminal, twice and unseen, else from the first line of stdin; never from an argument."""
    if find_spec("argon2") is None:  # said before anything is changed
        raise RedriveError("passwords need argon2-cffi, which is missing: pip install 'redrive[server]'")
    if sys.stdin.isatty():
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    return checked_password(text)


def _set_password(user_id: str, secret: str) -> None:
    """On the database of the settings, as its operator."""
    from redrive.app import Redrive  # slow to import, so only where it is needed

    given = click.get_current_context().ensure_object(GlobalOptions)

    async def set_password() -> None:
        async with Redrive(settings=given.settings(), log=False) as app:
            members = app.members(org=given.org or HOME, by=OPERATOR)
            await members.accounts.set_password(user_id, secret)

    asyncio.run(set_password())
