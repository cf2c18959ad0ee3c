"""`redrive context`: names for servers and databases, and which one is meant without saying so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from redrive.cli.commands import CommandGroup
from redrive.cli.confirmation import dry_run_option, report_dry_run
from redrive.cli.context_file import LOCAL, ContextFile, NamedContext
from redrive.cli.http_transport import checked_address
from redrive.cli.output import output_option, show_rows
from redrive.cli.terminal import notice
from redrive.errors import InvalidValueError

COLUMNS = ("name", "current", "server", "config", "key")


@click.group(cls=CommandGroup)
def context() -> None:
    """Names for the servers and databases that you work with.

    Keys are not kept: a context says in which variable one is, or which command prints it.
    """


@context.command("list")
@output_option
def list_contexts(output: str | None) -> None:
    """List the contexts, and which one is used."""
    contexts = ContextFile()
    rows = [_row(contexts, name) for name in (LOCAL, *sorted(contexts.known))]
    show_rows(rows, COLUMNS, output)


@context.command()
@click.argument("name")
@click.option("--server", metavar="URL", help="The server, such as https://redrive.example.com.")
@click.option(
    "--key-variable", metavar="NAME", help="The variable that holds its key; REDRIVE_API_KEY if not given."
)
@click.option(
    "--key-command", metavar="COMMAND", help="A command that prints its key, such as `pass show redrive`."
)
@click.option(
    "--plain-http", is_flag=True, help="Send the key also without encryption, in a network you trust."
)
@click.option(
    "--config", metavar="FILE", help="Instead of a server: a file with settings that name a database."
)
@click.option("--use", is_flag=True, help="Use it from now on.")
@dry_run_option
def add(name: str, use: bool, dry_run: bool, **given: Any) -> None:
    """Add a context, or change the one of that name."""
    if (given["server"] is None) == (given["config"] is None):
        raise click.UsageError("A context is a --server or a --config, one of them.")
    if given["server"] is not None:
        given["server"] = checked_address(given["server"])
    else:
        given["config"] = str(Path(given["config"]).absolute())  # it is used from other directories, too
    if given["key_variable"] and given["key_command"]:
        raise InvalidValueError("the key comes from --key-variable or from --key-command, not from both")
    if report_dry_run(f"add the context {name!r}", dry_run):
        return
    contexts = ContextFile()
    contexts.add(name, NamedContext(**given))
    if use:
        contexts.use(name)
    notice(f"The context {name!r} is kept in {contexts.path}.")
    if not use:
        notice(f"`redrive context use {name}` makes it the one that is meant.")


@context.command()
@click.argument("name")
@dry_run_option
def use(name: str, dry_run: bool) -> None:
    """Use a context from now on; `local` is the database of the settings."""
    contexts = ContextFile()
    contexts.get(name)
    if not report_dry_run(f"use the context {name!r}", dry_run):
        contexts.use(name)
        notice(f"Commands are about {_spoken(contexts, name)} now.")


@context.command()
@click.argument("name")
@dry_run_option
def remove(name: str, dry_run: bool) -> None:
    """Forget a context."""
    contexts = ContextFile()
    contexts.get(name)
    if not report_dry_run(f"forget the context {name!r}", dry_run):
        contexts.remove(name)
        notice(f"The context {name!r} is forgotten.")


def _spoken(contexts: ContextFile, name: str) -> str:
    found = contexts.get(name)
    return found.server or found.config or "the database of the settings"


def _row(contexts: ContextFile, name: str) -> dict[str, Any]:
    found = contexts.get(name)
    key = None if found.server is None else found.key_command or found.key_variable or "REDRIVE_API_KEY"
    current = contexts.current == name
    return {"name": name, "current": current, "server": found.server, "config": found.config, "key": key}
