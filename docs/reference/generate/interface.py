"""Generates the page of the Python API: every public name with its signature and docstring."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

from docs.reference.generate.page import NOTE, page, said

import redrive

FIRST = ("Redrive", "Context", "RunHandle", "DeadLetterQueue", "Settings")
FURTHER = (
    ("redrive.types", "Failures"),
    ("redrive.types", "SyncRunHandle"),
    ("redrive.types", "Events"),
    ("redrive.types", "Streams"),
    ("redrive.events", "Stream"),
    ("redrive.events", "Event"),
    ("redrive.events", "StreamEntry"),
    ("redrive.calls", "Dependency"),
    ("redrive.calls", "current_attempt"),
    ("redrive.calls", "log_fields"),
    ("redrive.policy", "BudgetPolicy"),
    ("redrive.policy", "Classifier"),
    ("redrive.policy", "Failure"),
    ("redrive.policy", "ErrorClass"),
    ("redrive.policy", "Delivery"),
    ("redrive.settings", "new_encryption_key"),
)
"""Public names of other modules, by the module to import them from."""
PARTS = {
    "Redrive": (("redrive.engine.task", "TaskOptions"), ("redrive.engine.enqueue", "StartOptions")),
    "Stream": (
        ("redrive.events.stream", "StreamOptions"),
        ("redrive.events.stream", "ProjectorOptions"),
    ),
    "Failures": (
        ("redrive.failures.groups", "FailureGroups"),
        ("redrive.failures.replays", "Replays"),
        ("redrive.failures.bulk_replays", "BulkReplays"),
        ("redrive.failures.saved_views", "SavedViews"),
        ("redrive.failures.strategies", "LetterStrategies"),
        ("redrive.failures.audit", "Audit"),
    ),
}
"""Classes that users of these names meet without importing them."""
HIDDEN = {
    *("worker_in_test", "prepare", "define", "start_within"),
    *("Context.begin", "Context.cancel", "Context.out_of_time"),
    *("Attempt.expires_by", "Attempt.out_of_time"),
    *("BulkReplays.progress", "BulkReplays.reaching", "BulkReplays.under_way"),
    *("Dependency.admit", "Dependency.configure", "Dependency.give_back", "Dependency.is_open_for"),
    *("Dependency.may_retry", "Dependency.report_failure", "Dependency.report_nothing"),
    "Dependency.report_success",
    "Rule.applies",
    *("Stream.checked", "Stream.event_of", "Stream.interested", "Stream.is_ordered", "Stream.reads_org"),
    *("StreamEntry.position", "StreamEntry.to_json"),
    *("Task.limit_for", "Task.of"),
    *("Template.function_name", "Template.matches", "Template.redrive_choice"),
}
"""Members used only by Redrive itself and its tests."""
WIDTH = 100

_ALIGNED = re.compile(r"^\S.*?\S {2,}\S|^\s+\S", re.MULTILINE)
_CODE = re.compile(r"@\w|await |async |\w+ = ")


def interface() -> str:
    names = [*FIRST, *(name for name in redrive.__all__ if name not in FIRST)]
    shown = [("redrive", name) for name in names if not _is_error(getattr(redrive, name))]
    parts = [
        "# The Python API",
        NOTE,
        "The names in `redrive`, followed by names from other modules that programs use. See also "
        "[errors](errors.md), [settings](settings.md) and [named policies](policies.md).",
        "`Seconds` is a number of seconds or a `timedelta`. The durations of a policy can be given as either "
        "and are stored in seconds.",
    ]
    for home, name in (*shown, *FURTHER):
        heading, *description = _described(name, getattr(import_module(home), name), 2)
        origin = [] if home == "redrive" else [f"`from {home} import {name}`"]
        parts += [heading, *origin, *description]
        for module, part in PARTS.get(name, ()):
            parts += _described(part, getattr(import_module(module), part), 3)
    return page(*parts)


def _is_error(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception)


def _described(name: str, thing: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    if not isinstance(thing, type):
        yield _block(name, thing)
        yield _text(said(thing))
        return
    yield _text(said(thing))
    if issubclass(thing, enum.Enum):
        yield ", ".join(f"`{each.name}`" for each in thing)
        return
    yield _fields(name, thing)
    if name == "Settings":
        return
    for member, found in _members(thing):
        yield f"{'#' * (level + 1)} {name}.{member}"
        yield _block(member, found)
        yield _text(said(_function(found)))


def _text(text: str) -> str:
    """Convert a docstring to Markdown. Aligned columns and code keep their layout."""
    return "\n\n".join(_paragraph(part) for part in text.split("\n\n") if part.strip())


def _paragraph(part: str) -> str:
    if _ALIGNED.search(part) or _CODE.match(part):
        return f"```text\n{part}\n```"
    return part.replace("\n", " ").replace("<", "&lt;")


def _fields(name: str, thing: type) -> str:
    """Return the fields of a dataclass, named tuple or typed dictionary, or else the constructor."""
    if dataclasses.is_dataclass(thing):
        lines = [
            _line(each.name, each.type, _default(each)) for each in dataclasses.fields(thing) if each.repr
        ]
    elif hasattr(thing, "_fields"):
        defaults = vars(thing)["_field_defaults"]
        lines = [
            _line(each, thing.__annotations__[each], f" = {defaults[each]!r}" if each in defaults else "")
            for each in thing._fields
        ]
    elif hasattr(thing, "__total__"):
        lines = [_line(each, kind, "") for each, kind in thing.__annotations__.items()]
    else:
        return _block(name, thing) if thing.__init__ is not object.__init__ else ""  # type: ignore[misc]
    return "```py\n" + "\n".join(lines) + "\n```" if name != "Settings" else ""


def _line(name: str, kind: Any, default: str) -> str:
    """Write a field as ruff formats it."""
    text = getattr(kind, "__forward_arg__", None) or (kind if isinstance(kind, str) else _kind(kind))
    return f"{name}: {text}{default}".replace("'", '"')


def _kind(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "" if field.default_factory is dataclasses.MISSING else " = …"
    shown = repr(field.default)
    return f" = {shown}" if len(shown) < 40 and " at 0x" not in shown else " = …"


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield public methods and properties of the class and of its base classes in Redrive."""
    seen: set[str] = set()
    for base in thing.__mro__:
        if not base.__module__.startswith("redrive"):
            continue
        for name, found in vars(base).items():
            hidden = name.startswith("_") or HIDDEN & {name, f"{thing.__name__}.{name}"}
            if not hidden and name not in seen and _is_member(found):
                seen.add(name)
                yield name, found


def _is_member(found: Any) -> bool:
    return inspect.isfunction(found) or isinstance(
        found, property | cached_property | classmethod | staticmethod
    )


def _function(found: Any) -> Any:
    if isinstance(found, property):
        return found.fget
    if isinstance(found, cached_property):
        return found.func
    return getattr(found, "__func__", found)


def _block(name: str, thing: Any) -> str:
    function = _function(thing)
    if isinstance(thing, property | cached_property):
        return f"```py\n{name}: {function.__annotations__.get('return', 'Any')}\n```"
    before = (
        "async def " if inspect.iscoroutinefunction(function) else "" if isinstance(thing, type) else "def "
    )
    signature = inspect.signature(function)
    kept = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    parts = [_parameter(each) for each in kept]
    for index, each in enumerate(kept):
        if each.kind is each.KEYWORD_ONLY and not any(one.kind is one.VAR_POSITIONAL for one in kept):
            parts.insert(index, "*")
            break
    returned = signature.return_annotation
    after = "" if returned is signature.empty or isinstance(thing, type) else f" -> {returned}"
    line = f"{before}{name}({', '.join(parts)}){after}"
    if len(line) > WIDTH:
        inner = textwrap.indent(",\n".join(parts), "    ")
        line = f"{before}{name}(\n{inner},\n){after}"
    return f"```py\n{line}\n```"


def _parameter(each: inspect.Parameter) -> str:
    stars = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
    kind = "" if each.annotation is each.empty else f": {each.annotation}"
    if each.default is each.empty:
        return f"{stars}{each.name}{kind}"
    shown = repr(each.default)
    shown = shown if len(shown) < 40 and " at 0x" not in shown else "…"
    return f"{each.name}{kind} = {shown}"
