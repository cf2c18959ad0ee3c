"""The sources of settings: a file, the environment, arguments; each overrides the one before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError
from redrive.settings.document import read_document
from redrive.settings.setting import PREFIX, Setting
from redrive.words.suggestion import closest

FILE_VARIABLE = f"{PREFIX}CONFIG"

_FOREIGN = re.compile(
    rf"{FILE_VARIABLE}|{PREFIX}(SERVER|CONTEXT|API_KEY|TEST_.*|WITHOUT_GUARD|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT_\d+_[A-Z]+(_.*)?)"
)
"""Variables that are not settings: the name of the file, those of the command line and of our tests, and
those that Kubernetes sets for every service whose name starts with redrive."""
_KUBERNETES_LINK = re.compile(r"(tcp|udp|sctp)://.*")
"""Kubernetes sets …_PORT of a service to this; a service redrive-server would set our REDRIVE_SERVER_PORT."""

KnownSettings = Mapping[str, Setting]
"""All settings by name."""


class SourcedValue(NamedTuple):
    """A value and its origin."""

    value: Any
    origin: str


class Argument(NamedTuple):
    """A value from the command line, and the option that set it, such as --port."""

    value: object
    option: str


def from_file(path: Path, known: KnownSettings) -> dict[str, SourcedValue]:
    values = {}
    for key, value in _read_table(path, known).items():
        if key not in known:
            raise InvalidValueError(f"there is no setting {key!r} in {path}{_suggest(key, known)}")
        values[key] = SourcedValue(known[key].convert(value, f"{key} in {path}"), f"file {path}")
    return values


def from_environment(environment: Mapping[str, str], known: KnownSettings) -> dict[str, SourcedValue]:
    """Read the variables of all settings; an empty variable counts as not set."""
    texts = {
        variable: text.strip() for variable, text in environment.items() if not is_foreign(variable, text)
    }
    _reject_unknown(texts, known)
    values = {}
    for setting in known.values():
        if text := texts.get(setting.environment):
            variable = origin = setting.environment
        elif setting.alias and (text := texts.get(setting.alias)):
            variable, origin = setting.alias, f"{setting.alias} (alias)"
        else:
            continue
        values[setting.name] = SourcedValue(setting.convert(setting.parse(text), variable), origin)
    return values


def from_arguments(arguments: Mapping[str, object], known: KnownSettings) -> dict[str, SourcedValue]:
    """Read arguments by the names of their settings; text is read as in the environment."""
    values = {}
    for name, argument in arguments.items():
        value, option = argument if isinstance(argument, Argument) else (argument, name)
        if name not in known:
            raise InvalidValueError(f"there is no setting {name!r}{_suggest(name, known)}")
        setting = known[name]
        value = setting.parse(value.strip()) if isinstance(value, str) else value
        values[name] = SourcedValue(setting.convert(value, option), f"argument {option}")
    return values


def _read_table(path: Path, known: KnownSettings) -> dict[str, Any]:
    """Read the settings of a file; next to a table [redrive] it may hold those of other programs."""
    document = read_document(path)
    table = document.get("redrive")
    if not isinstance(table, dict):
        return document
    for key in document:
        if key in known:
            raise InvalidValueError(
                f"{key} in {path} is outside the table [redrive]; move it into that table"
            )
    return table


def is_foreign(variable: str, text: str) -> bool:
    """Tell whether a variable with our prefix belongs to something else."""
    if not variable.startswith(PREFIX):
        return False
    return bool(_FOREIGN.fullmatch(variable)) or (
        variable.endswith("_PORT") and bool(_KUBERNETES_LINK.fullmatch(text))
    )


def _reject_unknown(texts: Mapping[str, str], known: KnownSettings) -> None:
    variables = {setting.environment for setting in known.values()}
    for variable, text in sorted(texts.items()):
        if variable.startswith(PREFIX) and variable not in variables and text:
            suggestion = _suggest(variable.removeprefix(PREFIX), known, variables=True)
            raise InvalidValueError(f"the environment sets {variable}, which is not a setting{suggestion}")


def _suggest(key: str, known: KnownSettings, *, variables: bool = False) -> str:
    word = str(key).lower().replace("-", "_")
    name = closest(word, known) or next((name for name in known if name.endswith(f"_{word}")), None)
    if name is None:
        return "; remove it, then run `redrive config` to list all settings"
    return f"; did you mean {known[name].environment if variables else name}?"
