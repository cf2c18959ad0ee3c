"""A file of settings as it is written: TOML, or YAML when its name ends so."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from redrive.errors import InvalidValueError

YAML_ENDINGS = (".yaml", ".yml")


def read_document(path: Path) -> dict[str, Any]:
    """What the file says; a file that cannot be read is told apart from one that is not what it seems."""
    kind, parse = ("YAML", _yaml) if path.suffix.lower() in YAML_ENDINGS else ("TOML", tomllib.loads)
    try:
        return parse(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidValueError(f"the settings in {path} cannot be read: {error.strerror}") from error
    except ImportError:
        raise InvalidValueError(
            f"the settings in {path} are YAML, which needs PyYAML: install redrive[yaml], or use TOML"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"the settings in {path} are not {kind}: {error}") from None


def _yaml(text: str) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(_problem(error)) from None
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise ValueError("names and their values are expected, such as `dlq_interval_sec: 60`")
    return document


def _problem(error: Any) -> str:
    """What is wrong, and where; its own text quotes the lines around it, which may hold a secret."""
    problem = str(getattr(error, "problem", None) or "it has signs that are not allowed")
    what, mark = problem.partition("'")[0].strip(), getattr(error, "problem_mark", None)
    return what if mark is None else f"{what} (at line {mark.line + 1}, column {mark.column + 1})"
