"""The folder of a demo, with its database, settings and Acme's files; and how to find a running demo.

A running demo writes two small files to its folder and another to a directory that only its user can read.
None contains a secret.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from pathlib import Path

from redrive.demo.acme.tasks import ZONES
from redrive.errors import InvalidValueError, NotFoundError

PREFIX = "redrive-demo-"
STATE = "demo.json"
SETTINGS = "redrive.toml"
DATABASE = "redrive.db"
SHELL = "env.sh"

MISSING_COUNTRY, MISSING_ZONE = "NO", 3
KNOWN_ZONES = {"CH": 1, "DE": 1, "AT": 1, "FR": 2, "IT": 2, "SE": 3}


@dataclass(frozen=True, slots=True)
class Running:
    """The addresses of a running demo."""

    pid: int
    directory: str
    pages: str
    outside: str
    database_url: str


class ShippingZones:
    """Acme's table of shipping zones. One country is missing until the user adds it.

    `pages` is the address of the admin pages, or "" while the server starts.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / ZONES
        self.line = f"{MISSING_COUNTRY} = {MISSING_ZONE}"
        self.pages = ""

    def prepare(self) -> None:
        lines = [f"{country} = {zone}\n" for country, zone in KNOWN_ZONES.items()]
        self.file.write_text("# The shipping zone of each country.\n" + "".join(lines), encoding="utf-8")

    @property
    def is_fixed(self) -> bool:
        try:
            return MISSING_COUNTRY in tomllib.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError):
            return False

    def fix(self) -> None:
        if not self.is_fixed:
            text = self.file.read_text(encoding="utf-8")
            self.file.write_text(f"{text.rstrip()}\n{self.line}\n", encoding="utf-8")


class DemoFolder:
    def __init__(self, path: Path, *, temporary: bool) -> None:
        self.path = path
        self.temporary = temporary

    @classmethod
    def create(cls, given: str | None) -> DemoFolder:
        """Use the given directory, which must be empty, or create a temporary one."""
        _remove_leftovers()
        if given is None:
            return cls(Path(tempfile.mkdtemp(prefix=PREFIX)).resolve(), temporary=True)
        folder = Path(given).resolve()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_empty = not any(folder.iterdir())
        except OSError as error:
            raise InvalidValueError(f"can't use the directory {given}: {error.strerror}") from None
        if not is_empty:
            raise InvalidValueError(
                f"the directory {given} is not empty. Choose an empty directory, or omit --directory to use "
                f"a temporary one"
            )
        return cls(folder, temporary=False)

    @property
    def state(self) -> Path:
        return self.path / STATE

    @property
    def settings(self) -> Path:
        return self.path / SETTINGS

    @property
    def sqlite_url(self) -> str:
        return f"sqlite:///{self.path / DATABASE}"

    def log_of(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def install_acme(self) -> None:
        """Copy Acme's code into the folder, to run it like any user's code."""
        with as_file(files("redrive.demo") / "acme") as source:
            shutil.copytree(source, self.path / "acme", ignore=shutil.ignore_patterns("__pycache__"))

    def configure(self, **settings: object) -> None:
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
        self.settings.write_text("".join(lines), encoding="utf-8")

    def prepare_shells(self, database_url: str, path: str) -> str:
        """Write a file that lets another shell use the commands. Return the command that loads it.

        `path` is the folder of `redrive`, or "" if other shells find it.
        """
        folder = f'PATH={shlex.quote(path)}:"$PATH" ' if path else ""
        file = self.path / SHELL
        file.touch(mode=0o600)
        file.write_text(
            f"export {folder}REDRIVE_DATABASE_URL={shlex.quote(database_url)}\n", encoding="utf-8"
        )
        return f". {shlex.quote(str(file))}"

    def announce(self, running: Running) -> None:
        text = json.dumps(asdict(running), indent=2)
        self.state.write_text(text, encoding="utf-8")
        with suppress(OSError):  # optional: --directory finds the demo without it
            registry = _registry()
            registry.mkdir(mode=0o700, parents=True, exist_ok=True)
            (registry / f"{running.pid}.json").write_text(text, encoding="utf-8")

    def remove(self) -> None:
        """Delete the files that announce the demo, and the folder if it is temporary."""
        with suppress(OSError):
            self.state.unlink(missing_ok=True)
            (_registry() / f"{os.getpid()}.json").unlink(missing_ok=True)
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)


def find(directory: str | None) -> Running:
    """Find the demo that runs in a directory, or else the demo that was started last."""
    if directory is not None:
        running = _read(Path(directory) / STATE)
        if running is None or not _is_alive(running.pid):
            raise NotFoundError(
                f"no demo is running in {directory}. Start one there: redrive demo --directory {directory}"
            )
        return running
    newest = next(_running(), None)
    if newest is None:
        raise NotFoundError("no demo is running. Start one in another terminal: redrive demo")
    return newest


def _running() -> Iterator[Running]:
    """Yield the running demos, the newest first."""
    with suppress(OSError):
        entries = sorted(_registry().glob("*.json"), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for entry in entries:
            running = _read(entry)
            if running is not None and _is_alive(running.pid) and Path(running.directory, STATE).exists():
                yield running


def _remove_leftovers() -> None:
    """Delete the files of demos that were killed, and their temporary folders."""
    with suppress(OSError):
        for entry in _registry().glob("*.json"):
            running = _read(entry)
            if running is not None and _is_alive(running.pid):
                continue
            entry.unlink(missing_ok=True)
            folder = Path(running.directory) if running is not None else None
            if folder is not None and folder.name.startswith(PREFIX) and _read(folder / STATE) == running:
                shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> Running | None:
    """Return None if the file is missing, unreadable, or belongs to another user."""
    try:
        if path.stat().st_uid != os.getuid():
            return None
        return Running(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError, TypeError):
        return False
    return True


def _registry() -> Path:
    """Return the directory that lists running demos. Only this user can write to it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "redrive" / "demos"
