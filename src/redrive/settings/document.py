"""Reads a settings file: TOML, or YAML if its name says so."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from redrive.errors import InvalidValueError

YAML_ENDINGS = (".yaml", ".yml")


def read_document(path: Path) -> dict[str, Any]:
    """Parse the file; the message tells an unreadable file from a malformed one."""
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
    """Name the problem and its line; PyYAML's text quotes lines, which may hold a secret."""
    problem = str(getattr(error, "problem", None) or "it contains characters that are not allowed")
    problem, mark = problem.partition("'")[0].strip(), getattr(error, "problem_mark", None)
    return problem if mark is None else f"{problem} (at line {mark.line + 1}, column {mark.column + 1})"
