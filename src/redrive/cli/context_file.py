"""The file with contexts: names for servers and databases. It holds no secrets."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeVar

import click

from redrive.errors import InvalidValueError, NotFoundError, RedriveError
from redrive.settings.sources import read_document
from redrive.words.suggestion import suggest

LOCAL = "local"
"""Stands for the database of the settings; no context can have this name."""
FILE = "contexts.toml"
KEY_VARIABLE = "REDRIVE_API_KEY"
COMMAND_SECONDS = 60.0

T = TypeVar("T")

_KINDS: dict[type, str] = {str: "a text", dict: "a table", bool: "true or false"}


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
            raise self._unknown(name)
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
        if name not in self.known:
            raise self._unknown(name)
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

    def _unknown(self, name: str) -> NotFoundError:
        meant = suggest(
            name, [*self.known, LOCAL], otherwise="`redrive context list` shows all that there are"
        )
        return NotFoundError(f"there is no context {name!r}; {meant}")

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".new")
        beside.touch(mode=0o600)  # others need not know where keys are
        beside.chmod(0o600)
        beside.write_text(self._text(), encoding="utf-8")
        beside.replace(self.path)

    def _text(self) -> str:
        lines = [f"current = {json.dumps(self.current)}"]
        for name, context in sorted(self.known.items()):
            lines.append(f"\n[contexts.{json.dumps(name)}]")
            given = {field: value for field, value in asdict(context).items() if value not in (None, False)}
            lines += [f"{field} = {json.dumps(value)}" for field, value in given.items()]
        return "\n".join(lines) + "\n"


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
