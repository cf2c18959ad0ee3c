"""The folder of a demo: its database, its settings, Acme's code; and how a running one is found.

A demo tells of itself in a small file in its folder, and in a list of running demos that only its user can
read. Neither holds a secret.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from pathlib import Path

from redrive.errors import InvalidValueError, NotFoundError

PREFIX = "redrive-demo-"
STATE = "demo.json"
SETTINGS = "redrive.toml"
DATABASE = "redrive.db"


@dataclass(frozen=True, slots=True)
class Running:
    """A demo that runs, as others find it."""

    pid: int
    directory: str
    pages: str
    outside: str
    database_url: str


class DemoFolder:
    def __init__(self, folder: Path, *, temporary: bool) -> None:
        self.folder = folder
        self.temporary = temporary

    @classmethod
    def made(cls, given: str | None) -> DemoFolder:
        _sweep()
        if given is None:
            return cls(Path(tempfile.mkdtemp(prefix=PREFIX)).resolve(), temporary=True)
        folder = Path(given).resolve()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_empty = not any(folder.iterdir())
        except OSError as error:
            raise InvalidValueError(f"cannot use the directory {given}: {error.strerror}") from None
        if not is_empty:
            raise InvalidValueError(
                f"the directory {given} is not empty, and a demo begins anew; give another one, or none "
                f"for a temporary one"
            )
        return cls(folder, temporary=False)

    @property
    def state(self) -> Path:
        return self.folder / STATE

    @property
    def settings(self) -> Path:
        return self.folder / SETTINGS

    @property
    def sqlite_url(self) -> str:
        return f"sqlite:///{self.folder / DATABASE}"

    def log_of(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def install_acme(self) -> None:
        """Acme's code, where anybody would have their own: outside of what is installed."""
        with as_file(files("redrive.demo") / "acme") as source:
            shutil.copytree(source, self.folder / "acme", ignore=shutil.ignore_patterns("__pycache__"))

    def configure(self, **settings: object) -> None:
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
        self.settings.write_text("".join(lines), encoding="utf-8")

    def announce(self, running: Running) -> None:
        text = json.dumps(asdict(running), indent=2)
        self.state.write_text(text, encoding="utf-8")
        with suppress(OSError):  # without it, --directory finds the demo
            shelf = _shelf()
            shelf.mkdir(mode=0o700, parents=True, exist_ok=True)
            (shelf / f"{running.pid}.json").write_text(text, encoding="utf-8")

    def leave(self) -> None:
        with suppress(OSError):
            self.state.unlink(missing_ok=True)
            (_shelf() / f"{os.getpid()}.json").unlink(missing_ok=True)
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def find(directory: str | None) -> Running:
    """The demo in a directory, or else the one that was started last."""
    if directory is not None:
        running = _read(Path(directory) / STATE)
        if running is None or not _is_alive(running.pid):
            raise NotFoundError(
                f"no demo runs in {directory}; start one there: redrive demo --directory {directory}"
            )
        return running
    known = list(_known())
    if not known:
        raise NotFoundError("no demo is running; start one in another terminal: redrive demo")
    return known[0]


def _known() -> Iterator[Running]:
    """Those that run, the newest first."""
    with suppress(OSError):
        entries = sorted(_shelf().glob("*.json"), key=lambda each: each.stat().st_mtime, reverse=True)
        for entry in entries:
            running = _read(entry)
            if running is not None and _is_alive(running.pid) and Path(running.directory, STATE).exists():
                yield running


def _sweep() -> None:
    """What a demo has left behind that was killed: its folder, if that was a temporary one."""
    with suppress(OSError):
        for entry in _shelf().glob("*.json"):
            running = _read(entry)
            if running is not None and _is_alive(running.pid):
                continue
            entry.unlink(missing_ok=True)
            folder = Path(running.directory) if running is not None else None
            if folder is not None and folder.name.startswith(PREFIX) and _read(folder / STATE) == running:
                shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> Running | None:
    """None for what is not there, not ours, or not understood."""
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


def _shelf() -> Path:
    """Where only this user can write."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "redrive" / "demos"
