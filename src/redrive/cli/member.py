"""`redrive member`: who belongs to an organization, and as what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from redrive.cli.asking import agreed, dry_run_option, read_password, yes_option
from redrive.cli.duration import DURATION
from redrive.cli.given import Given, settings_options
from redrive.cli.office import all_of, in_directory, org_option
from redrive.cli.table import output_option, show_json, show_rows
from redrive.cli.text import instant, notice, out
from redrive.errors import InvalidValueError
from redrive.model.identity import HOME
from redrive.model.role import Role
from redrive.policy.credential import user_name

if TYPE_CHECKING:
    from redrive.config import Settings
    from redrive.engine.directory import Directory
    from redrive.model.identity import Member

COLUMNS = ("name", "role", "active", "disabled", "created_at", "created_by")

password_option = click.option(
    "--password",
    is_flag=True,
    help="Ask for a password; without a terminal it is the first line of the standard input.",
)


@click.group()
def member() -> None:
    """Members: add, list, change, remove, or give a link to sign in.

    A member is a person who signs in by a name, and has a role in an organization.
    """


@member.command()
@click.argument("name")
@click.option("--role", required=True, help="VIEWER, STAFF, ADMIN or OWNER.")
@password_option
@org_option
@dry_run_option
@settings_options
@click.pass_obj
def add(given: Given, name: str, role: str, password: bool, org: str, dry_run: bool) -> None:
    """Add a member. Without a password they sign in by a link, or by what else is set up."""
    known, wanted = user_name(name), Role.parse(role)
    if not agreed(f"add {known!r} to {org} as {wanted}", dry_run=dry_run):
        return
    secret = read_password() if password else None

    async def execute(directory: Directory) -> Member:
        added = await directory.members.add(known, wanted)
        if secret is not None:
            await directory.accounts.set_password(added.user_id, secret)
        return added

    added = in_directory(given, org, execute)
    notice(f"{added.name} is a member of {org}: {added.role}.")
    if secret is None:
        place = "" if org == HOME else f" --org {org}"
        notice(f"`redrive member link {added.name}{place}` gives a link to sign in by.")


@member.command("list")
@org_option
@output_option
@settings_options
@click.pass_obj
def list_members(given: Given, org: str, output: str | None) -> None:
    """List the members, by name."""
    show_rows(
        [_row(each) for each in in_directory(given, org, lambda directory: all_of(directory.members.list))],
        COLUMNS,
        output,
    )


@member.command()
@click.argument("name")
@click.option("--role", help="Another role: VIEWER, STAFF, ADMIN or OWNER.")
@click.option("--active/--inactive", default=None, help="Whether they may act in this organization.")
@password_option
@org_option
@dry_run_option
@settings_options
@click.pass_obj
def change(
    given: Given, name: str, role: str | None, active: bool | None, password: bool, org: str, dry_run: bool
) -> None:
    """Change a member: the role, whether they may act, the password."""
    if role is None and active is None and not password:
        raise click.UsageError("Say what is to change: --role, --active, --inactive or --password.")
    wanted = None if role is None else Role.parse(role)
    before = in_directory(given, org, lambda directory: directory.members.get(name))
    if not agreed(f"change {before.name!r} of {org}", dry_run=dry_run):
        return
    secret = read_password() if password else None

    async def execute(directory: Directory) -> Member:
        after = await directory.members.change(
            before.user_id, role=wanted, active=active, version=before.version
        )
        if secret is not None:
            await directory.accounts.set_password(before.user_id, secret)
        return after

    after = in_directory(given, org, execute)
    notice(f"{after.name} is {after.role} in {org}, {'active' if after.active else 'inactive'}.")


@member.command()
@click.argument("name")
@org_option
@dry_run_option
@yes_option
@settings_options
@click.pass_obj
def remove(given: Given, name: str, org: str, dry_run: bool, yes: bool) -> None:
    """Remove a member from the organization; the account stays."""
    found = in_directory(given, org, lambda directory: directory.members.get(name))
    if agreed(f"remove {found.name!r} from {org}, {found.role}", dry_run=dry_run, yes=yes):
        in_directory(
            given, org, lambda directory: directory.members.remove(found.user_id, version=found.version)
        )
        notice(f"{found.name} is no member of {org} any more.")


@member.command()
@click.argument("name")
@click.option(
    "--valid",
    type=DURATION,
    default="1h",
    show_default=True,
    metavar="LENGTH",
    help="How long it can be used.",
)
@org_option
@dry_run_option
@output_option
@settings_options
@click.pass_obj
def link(given: Given, name: str, valid: float, org: str, dry_run: bool, output: str | None) -> None:
    """Write a link to stdout that signs a member in, once.

    Whoever has it can be that member: send it where only they can read it.
    """
    address = address_of(given.settings())
    found = in_directory(given, org, lambda directory: directory.members.get(name))
    if not agreed(f"make a link for {found.name!r} of {org}", dry_run=dry_run):
        return
    made = in_directory(
        given, org, lambda directory: directory.accounts.link(found.user_id, minutes=valid / 60.0)
    )
    url = f"{address}/app/sign-in#{made.token}"
    if output == "json":
        show_json({"name": made.name, "url": url, "expires_at": instant(made.expires_at)})
    else:
        out(url)
    notice(f"It signs {made.name} in, once, until {instant(made.expires_at)}.")


def address_of(settings: Settings) -> str:
    """Where the server of these settings is found."""
    if settings.server_url is not None:
        return settings.server_url
    if settings.server_port == 0:
        raise InvalidValueError("server_port 0 does not tell where the server is; set server_url")
    host = f"[{settings.server_host}]" if ":" in settings.server_host else settings.server_host
    return f"http://{host}:{settings.server_port}"


def _row(member: Member) -> dict[str, Any]:
    times = {name: instant(value) for name, value in member._asdict().items() if name.endswith("_at")}
    return {**member._asdict(), **times}
