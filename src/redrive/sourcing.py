"""Where the values of settings come from: a file, the environment, arguments; each wins over the last."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from redrive.document import read_document
from redrive.errors import InvalidValueError
from redrive.setting import PREFIX, Setting

DEFAULT = "default"
CODE = "code"
"""The origin of a value that is not the default, and that nobody has loaded."""

FILE_VARIABLE = f"{PREFIX}CONFIG"

_FOREIGN = re.compile(
    rf"{FILE_VARIABLE}|{PREFIX}(SERVER|CONTEXT|API_KEY|TEST_.*|WITHOUT_GUARD|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT_\d+_[A-Z]+(_.*)?)"
)
"""Variables that are no settings: the name of the file, what the command line asks and as whom, those of our
tests, and those that Kubernetes makes for every service whose name begins with redrive."""
_LINK = re.compile(r"(tcp|udp|sctp)://.*")
"""What Kubernetes says in …_PORT of a service: of one named redrive-server, that would be ours."""

Known = Mapping[str, Setting]
"""All settings, by their names."""


class Sourced(NamedTuple):
    """A value, and where it comes from."""

    value: Any
    origin: str


class Argument(NamedTuple):
    """A value that was given on the command line, and how: --port."""

    value: object
    option: str


def from_file(path: Path, known: Known) -> dict[str, Sourced]:
    values = {}
    for key, value in _table(path, known).items():
        if key not in known:
            raise InvalidValueError(f"there is no setting {key!r} in {path}{_suggestion(key, known)}")
        values[key] = Sourced(known[key].checked(value, f"{key} in {path}"), f"file {path}")
    return values


def from_environment(environment: Mapping[str, str], known: Known) -> dict[str, Sourced]:
    ours = {variable: text for variable, text in environment.items() if not is_foreign(variable, text)}
    _refuse_unknown(ours, known)
    values = {}
    for setting in known.values():
        if (found := setting.text_in(ours)) is not None:
            variable, text = found
            origin = f"{variable} (alias)" if variable == setting.alias else variable
            values[setting.name] = Sourced(setting.checked(setting.parsed(text), variable), origin)
    return values


def from_arguments(arguments: Mapping[str, object], known: Known) -> dict[str, Sourced]:
    """By the names of the settings; text is read as in the environment."""
    values = {}
    for name, given in arguments.items():
        value, option = given if isinstance(given, Argument) else (given, name)
        if name not in known:
            raise InvalidValueError(f"there is no setting {name!r}{_suggestion(name, known)}")
        setting = known[name]
        read = setting.parsed(value.strip()) if isinstance(value, str) else value
        values[name] = Sourced(setting.checked(read, option), f"argument {option}")
    return values


def _table(path: Path, known: Known) -> dict[str, Any]:
    """The settings of a file; beside a table [redrive] it may hold what belongs to others."""
    document = read_document(path)
    table = document.get("redrive")
    if not isinstance(table, dict):
        return document
    for key in document:
        if key in known:
            raise InvalidValueError(f"{key} in {path} stands outside of [redrive]; move it into that table")
    return table


def is_foreign(variable: str, text: str) -> bool:
    """Is it meant for somebody else, although it begins as ours do?"""
    if not variable.startswith(PREFIX):
        return False
    return bool(_FOREIGN.fullmatch(variable)) or (variable.endswith("_PORT") and bool(_LINK.fullmatch(text)))


def _refuse_unknown(environment: Mapping[str, str], known: Known) -> None:
    variables = {setting.environment for setting in known.values()}
    for variable, text in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in variables and text.strip():
            name = variable.removeprefix(PREFIX)
            suggestion = _suggestion(name, known, variables=True)
            raise InvalidValueError(
                f"there is no setting {variable}, which the environment holds{suggestion}"
            )


def _suggestion(key: str, known: Known, *, variables: bool = False) -> str:
    near = _nearest(str(key).lower().replace("-", "_"), known)
    if near is None:
        return "; remove it, then `redrive config` shows all that there are"
    return f"; did you mean {known[near].environment if variables else near}?"


def _nearest(word: str, names: Iterable[str]) -> str | None:
    names = tuple(names)
    near = get_close_matches(word, names, n=1) or [name for name in names if name.endswith(f"_{word}")]
    return near[0] if near else None
