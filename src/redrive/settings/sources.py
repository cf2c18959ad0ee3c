"""The sources of settings: a file, the environment and arguments; each overrides the previous one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError
from redrive.model.spelling import own_names
from redrive.settings.setting import OTHER_NAMES, PREFIX, Setting
from redrive.words.suggestion import closest

FILE_VARIABLE = f"{PREFIX}CONFIG"
YAML_ENDINGS = (".yaml", ".yml")

_FOREIGN = re.compile(
    rf"{FILE_VARIABLE}|{PREFIX}(SERVER|CONTEXT|API_KEY|TEST_.*|WITHOUT_GUARD|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT_\d+_[A-Z]+(_.*)?)"
)
"""Variables that are not settings: the name of the file, variables of the command line and of tests, and
variables that Kubernetes sets for every service whose name starts with redrive."""
_KUBERNETES_LINK = re.compile(r"(tcp|udp|sctp)://.*")
"""The value that Kubernetes gives to …_PORT: a service redrive-server would set REDRIVE_SERVER_PORT."""

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
    for key, value in own_names(_read_table(path, known), known, OTHER_NAMES).items():
        if key not in known:
            raise InvalidValueError(f"there is no setting {key!r} in {path}{_suggest(key, known)}")
        values[key] = SourcedValue(known[key].convert(value, f"{key} in {path}"), f"file {path}")
    return values


def from_environment(environment: Mapping[str, str], known: KnownSettings) -> dict[str, SourcedValue]:
    """Read the variables of all settings; an empty variable counts as not set."""
    texts = {
        variable: text.strip() for variable, text in environment.items() if not is_foreign(variable, text)
    }
    texts = own_names(
        {variable: text for variable, text in texts.items() if text},
        {setting.environment for setting in known.values()},
        {f"{PREFIX}{other.upper()}": known[name].environment for other, name in OTHER_NAMES.items()},
    )
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
    """Read arguments by the names of their settings; text is converted as in the environment."""
    values = {}
    for name, argument in own_names(arguments, known, OTHER_NAMES).items():
        value, option = argument if isinstance(argument, Argument) else (argument, name)
        if name not in known:
            raise InvalidValueError(f"there is no setting {name!r}{_suggest(name, known)}")
        setting = known[name]
        value = setting.parse(value.strip()) if isinstance(value, str) else value
        values[name] = SourcedValue(setting.convert(value, option), f"argument {option}")
    return values


def _read_table(path: Path, known: KnownSettings) -> dict[str, Any]:
    """Read the settings of a file. A file with a table [redrive] may also have settings of other programs."""
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


def read_document(path: Path) -> dict[str, Any]:
    """Parse a settings file: YAML if its name ends with .yaml or .yml, otherwise TOML."""
    kind, parse = ("YAML", _parse_yaml) if path.suffix.lower() in YAML_ENDINGS else ("TOML", tomllib.loads)
    try:
        return parse(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidValueError(f"cannot read the settings in {path}: {error.strerror}") from error
    except ImportError:
        raise InvalidValueError(
            f"the settings in {path} are YAML, which needs PyYAML: install redrive[yaml], or use TOML"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"the settings in {path} are not {kind}: {error}") from None


def _parse_yaml(text: str) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(_describe(error)) from None
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise ValueError("expected names and values, such as `dlq_interval_sec: 60`")
    return document


def _describe(error: Any) -> str:
    """Return the problem and its line, without PyYAML's quoted lines, which may contain a secret."""
    problem = str(getattr(error, "problem", None) or "it contains characters that are not allowed")
    problem, mark = problem.partition("'")[0].strip(), getattr(error, "problem_mark", None)
    return problem if mark is None else f"{problem} (at line {mark.line + 1}, column {mark.column + 1})"


def is_foreign(variable: str, text: str) -> bool:
    """Return whether a variable is not a setting, because of its name or its Kubernetes value."""
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
