"""The application that an operator names: MODULE:ATTRIBUTE, imported from the working directory."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType

from redrive.app import Redrive
from redrive.cli.text import one_line
from redrive.errors import InvalidValueError, RedriveError


def application_at(target: str) -> Redrive:
    name, colon, attribute = target.partition(":")
    if not colon or not attribute.isidentifier() or not all(map(str.isidentifier, name.split("."))):
        raise InvalidValueError(f"{target!r} is not MODULE:ATTRIBUTE, such as shop.work:app")
    module = _imported(name)
    if not hasattr(module, attribute):
        raise InvalidValueError(f"the module {name} has no {attribute!r}{_suggestion(module, attribute)}")
    found = getattr(module, attribute)
    if not isinstance(found, Redrive):
        kind = type(found).__name__
        raise InvalidValueError(f"{target} is of type {kind}, not Redrive{_suggestion(module, attribute)}")
    return found


def _imported(name: str) -> ModuleType:
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise _missing(name, error.name or "") from error
    except (Exception, SystemExit) as error:
        problem = f"{type(error).__name__}: {one_line(error)}"
        raise RedriveError(f"the module {name} cannot be imported: {problem}") from error


def _missing(name: str, missing: str) -> RedriveError:
    if f"{name}.".startswith(f"{missing}."):
        return InvalidValueError(
            f"there is no module {missing}; it is looked for in this directory and among what is installed. "
            f"Start the command where `import {missing}` works"
        )
    return RedriveError(f"the module {name} cannot be imported: it needs {missing}, which is not installed")


def _suggestion(module: ModuleType, attribute: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Redrive)]
    if not names:
        return f"; there is no application in it: make one, such as {attribute} = Redrive()"
    near = get_close_matches(attribute, names, n=1) or names[:1]
    return f"; did you mean {module.__name__}:{near[0]}?"
