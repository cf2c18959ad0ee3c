"""`redrive context`: named servers and databases, stored in a file."""

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

_KINDS: dict[type, str] = {str: "a string", dict: "a table", bool: "true or false"}


@click.group(cls=CommandGroup)
def context() -> None:
    """Manage contexts: named servers and databases.

    A context never stores an API key, only the environment variable or the command that provides it.
    """


@context.command("list")
@output_option
def list_contexts(output: str | None) -> None:
    """List contexts and show which one is in use."""
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
@click.option("--server", metavar="URL", help="URL of the server, such as https://redrive.example.com.")
@click.option(
    "--key-variable", metavar="NAME", help="Environment variable with the API key. Default: REDRIVE_API_KEY."
)
@click.option(
    "--key-command", metavar="COMMAND", help="Command that prints the API key, such as `pass show redrive`."
)
@click.option(
    "--plain-http", is_flag=True, help="Allow sending the key unencrypted, for trusted networks only."
)
@click.option("--config", metavar="FILE", help="Settings file of a database, instead of a server.")
@click.option("--use", is_flag=True, help="Use the context from now on.")
@dry_run_option
def add(name: str, use: bool, dry_run: bool, **given: Any) -> None:
    """Add a context, or replace the one with this name."""
    if (given["server"] is None) == (given["config"] is None):
        raise click.UsageError("Pass either --server or --config.")
    if given["server"] is not None:
        given["server"] = checked_address(given["server"])
    else:
        given["config"] = str(
            Path(given["config"]).absolute()
        )  # the context is used from other directories, too
    if given["key_variable"] and given["key_command"]:
        raise InvalidValueError("--key-variable and --key-command can't be combined; use one of them")
    if report_dry_run(f"add context {name!r}", dry_run):
        return
    contexts = ContextFile()
    contexts.add(name, NamedContext(**given))
    if use:
        contexts.use(name)
    notice(f"Saved context {name!r} in {contexts.path}.")
    if not use:
        notice(f"Switch to it with `redrive context use {name}`.")


@context.command()
@click.argument("name")
@dry_run_option
def use(name: str, dry_run: bool) -> None:
    """Switch to a context; `local` is the configured database."""
    contexts = ContextFile()
    found = contexts.get(name)
    if not report_dry_run(f"switch to context {name!r}", dry_run):
        contexts.use(name)
        notice(f"Commands now use {found.server or found.config or 'the configured database'}.")


@context.command()
@click.argument("name")
@dry_run_option
def remove(name: str, dry_run: bool) -> None:
    """Remove a context."""
    contexts = ContextFile()
    contexts.get(name)
    if not report_dry_run(f"remove context {name!r}", dry_run):
        contexts.remove(name)
        notice(f"Removed context {name!r}.")


@dataclass(frozen=True, slots=True)
class NamedContext:
    """A server and the source of its key, or a settings file that names a database."""

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
            raise RedriveError(f"{variable} is empty; set it to the API key of this context")
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
            meant = suggest(name, known, otherwise="run `redrive context list` to list them")
            raise NotFoundError(f"no context is named {name!r}; {meant}")
        return self.known[name]

    def add(self, name: str, context: NamedContext) -> None:
        if name == LOCAL or not name.replace("-", "_").replace(".", "_").isidentifier():
            raise InvalidValueError(
                f"{name!r} is not a valid context name; start with a letter, use only letters, digits, '-', "
                f"'_' and '.', and don't use {LOCAL!r}"
            )
        self.known[name] = context
        self._write()

    def use(self, name: str) -> None:
        self.get(name)
        self.current = name
        self._write()

    def remove(self, name: str) -> None:
        if name == LOCAL:
            raise InvalidValueError(f"{LOCAL!r} is the configured database; it can't be removed")
        self.get(name)
        del self.known[name]
        if self.current == name:
            self.current = LOCAL
        self._write()

    def _read(self, name: str, table: Mapping[str, object]) -> NamedContext:
        unknown = set(self._of_type(dict, name, table)) - {field.name for field in fields(NamedContext)}
        if unknown:
            raise InvalidValueError(
                f"context {name!r} in {self.path} has an unknown field {min(unknown)!r}; remove it"
            )
        for field, value in table.items():
            self._of_type(bool if field == "plain_http" else str, f"{name}.{field}", value)
        return NamedContext(**table)  # type: ignore[arg-type]  # checked above

    def _of_type(self, kind: type[T], name: str, value: object) -> T:
        """Check a value of the file, which may have been edited by hand."""
        if not isinstance(value, kind):
            raise InvalidValueError(f"{name!r} in {self.path} must be {_KINDS[kind]}, not {value!r:.100}")
        return value

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".new")
        temporary.touch(mode=0o600)  # hide from other users where keys are
        temporary.chmod(0o600)
        lines = [f"current = {json.dumps(self.current)}"]
        for name, context in sorted(self.known.items()):
            lines.append(f"\n[contexts.{json.dumps(name)}]")
            given = {field: value for field, value in asdict(context).items() if value not in (None, False)}
            lines += [f"{field} = {json.dumps(value)}" for field, value in given.items()]
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
        temporary.replace(self.path)


def _run_key_command(command: str) -> str:
    """Run the user's command, without a shell, and return the key that it prints."""
    try:
        process = subprocess.run(  # noqa: S603
            shlex.split(command), check=False, capture_output=True, text=True, timeout=COMMAND_SECONDS
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise RedriveError(f"the key command could not be run: {error}") from None
    key = process.stdout.strip()
    if process.returncode != 0 or not key:
        raise RedriveError(f"the key command printed no key; it exited with {process.returncode}")
    return key
