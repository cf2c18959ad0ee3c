"""Modules that claim other paths, so that tracebacks look the same on every machine.

The package `acme` lies next to this file and claims to lie in /srv/acme; its `sdk` claims to be installed, as
libraries are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

PACKAGE = "acme"
_HERE = Path(__file__).parent
_APPLICATION = "/srv/acme/src"
_LIBRARIES = "/srv/acme/.venv/lib/python3.12/site-packages"


class _Loader(SourceLoader):
    def __init__(self, name: str, source: Path) -> None:
        self._name = name
        self._source = source

    def get_filename(self, fullname: str) -> str:
        parts = self._name.split(".")
        if self._source.name == "__init__.py":
            parts.append("__init__")
        if parts[1] == "sdk":
            return f"{_LIBRARIES}/{'/'.join(parts[2:])}.py"
        return f"{_APPLICATION}/{'/'.join(parts)}.py"

    def get_data(self, path: str | bytes) -> bytes:
        return self._source.read_bytes()


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != PACKAGE and not fullname.startswith(f"{PACKAGE}."):
            return None
        place = _HERE.joinpath(*fullname.split("."))
        is_package = place.is_dir()
        source = place / "__init__.py" if is_package else place.with_suffix(".py")
        if not source.exists():
            return None
        return spec_from_loader(fullname, _Loader(fullname, source), is_package=is_package)


def install() -> None:
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
