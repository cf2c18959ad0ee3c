"""`redrive context`: names for servers and databases, which one is used, and the file that keeps them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from redrive.cli.checks import report_dry_run
from redrive.cli.commands import CommandGroup
from redrive.cli.http_transport import checked_address
from redrive.cli.options import LOCAL, dry_run_option, output_option
from redrive.cli.output import show_rows
from redrive.cli.terminal import notice
from redrive.errors import InvalidValueError, NotFoundError, RedriveError
from redrive.settings.sources import read_document
from redrive.words.suggestion import suggest

FILE = "contexts.toml"
KEY_VARIABLE = "REDRIVE_API_KEY"
COMMAND_SECONDS = 60.0
COLUMNS = ("name", "current", "server", "config", "key")

T = TypeVar("T")

_KINDS: dict[type, str] = {str: "a text", dict: "a table", bool: "true or false"}


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
    rows = []
    for name in (LOCAL, *sorted(contexts.known)):
        found = contexts.get(name)
        key = None if found.server is None else found.key_command or found.key_variable or KEY_VARIABLE
        row = {"name": name, "current": contexts.current == name, "server": found.server}
        rows.append({**row, "config": found.config, "key": key})
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
    found = contexts.get(name)
    if not report_dry_run(f"use the context {name!r}", dry_run):
        contexts.use(name)
        notice(f"Commands are about {found.server or found.config or 'the database of the settings'} now.")


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


@dataclass(frozen=True, slots=True)
class NamedContext:
    """A server, and where its key comes from; or a file with settings, which name a database."""

    server: str | None = None
    key_variable: str | None = None
    key_command: str | None = None
    plain_http: bool = False
    config: str | None = None

    def key(self) -> str | None:
        if self.key_command is not None:
            return _run_key_command(self.key_command)
        variable = self.key_variable or KEY_VARIABLE
        found = os.environ.get(variable, "").strip()
        if not found and self.key_variable is not None:
            raise RedriveError(f"the key of this context is to be in {variable}, which is empty")
        return found or None


class ContextFile:
    def __init__(self, path: Path | None = None) -> None:
        self.path = path or Path(click.get_app_dir("redrive")) / FILE
        document = read_document(self.path) if self.path.exists() else {}
        self.current: str = self._of_type(str, "current", document.get("current", LOCAL))
        tables = self._of_type(dict, "contexts", document.get("contexts", {}))
        self.known = {name: self._read(name, table) for name, table in tables.items()}

    def get(self, name: str) -> NamedContext:
        if name == LOCAL:
            return NamedContext()
        if name not in self.known:
            known = [*self.known, LOCAL]
            meant = suggest(name, known, otherwise="`redrive context list` shows all that there are")
            raise NotFoundError(f"there is no context {name!r}; {meant}")
        return self.known[name]

    def add(self, name: str, context: NamedContext) -> None:
        if name == LOCAL or not name.replace("-", "_").replace(".", "_").isidentifier():
            raise InvalidValueError(
                f"{name!r} cannot be the name of a context: it begins with a letter, has letters, digits, - "
                f"and _ in it, and is not {LOCAL!r}"
            )
        self.known[name] = context
        self._write()

    def use(self, name: str) -> None:
        self.get(name)
        self.current = name
        self._write()

    def remove(self, name: str) -> None:
        if name == LOCAL:
            raise InvalidValueError(f"{LOCAL!r} is the database of the settings; it can't be removed")
        self.get(name)
        del self.known[name]
        if self.current == name:
            self.current = LOCAL
        self._write()

    def _read(self, name: str, table: Mapping[str, object]) -> NamedContext:
        unknown = set(self._of_type(dict, name, table)) - {field.name for field in fields(NamedContext)}
        if unknown:
            raise InvalidValueError(
                f"the context {name!r} in {self.path} holds {min(unknown)!r}, which is unknown"
            )
        for field, value in table.items():
            self._of_type(bool if field == "plain_http" else str, f"{name}.{field}", value)
        return NamedContext(**table)  # type: ignore[arg-type]  # looked at just now

    def _of_type(self, kind: type[T], name: str, value: object) -> T:
        """Check a value of the file, which may be written by hand."""
        if not isinstance(value, kind):
            raise InvalidValueError(f"{name!r} in {self.path} is to be {_KINDS[kind]}, not {value!r:.100}")
        return value

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".new")
        beside.touch(mode=0o600)  # others need not know where keys are
        beside.chmod(0o600)
        lines = [f"current = {json.dumps(self.current)}"]
        for name, context in sorted(self.known.items()):
            lines.append(f"\n[contexts.{json.dumps(name)}]")
            given = {field: value for field, value in asdict(context).items() if value not in (None, False)}
            lines += [f"{field} = {json.dumps(value)}" for field, value in given.items()]
        beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
        beside.replace(self.path)


def _run_key_command(command: str) -> str:
    """Return what a password manager prints. The user has chosen the command; no shell reads it."""
    try:
        ended = subprocess.run(  # noqa: S603
            shlex.split(command), check=False, capture_output=True, text=True, timeout=COMMAND_SECONDS
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise RedriveError(f"the command for the key cannot be executed: {error}") from None
    key = ended.stdout.strip()
    if ended.returncode != 0 or not key:
        raise RedriveError(f"the command for the key has printed none, and ended with {ended.returncode}")
    return key
