"""The page of all events that a listener receives."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from docs.reference.generate.page import NOTE, cell, code, page, said, table

from redrive.model import event

INTRODUCTION = (
    "`app.listen(function)` calls the function with each of these (`redrive.model.event`), also for the "
    "logs. It must be quick; what it raises does not touch the run. `name_of(event)` is the name, "
    "`fields_of(event)` are the fields flat, under the names that all logs use: durations in milliseconds, "
    "the [reference to the step](#which-step) and the failure as single fields."
)


def events() -> str:
    rows = [
        (code(event._NAMES[kind]), f"`{kind.__name__}`", _fields(kind), cell(said(kind))) for kind in _kinds()
    ]
    reference = [(code(name), code(_type(kind))) for name, kind in get_type_hints(event.StepRef).items()]
    return page(
        "# Events",
        NOTE,
        INTRODUCTION,
        table(("name", "class", "fields", ""), rows),
        "## Which step",
        cell(said(event.StepRef)) + " `ref` holds:",
        table(("field", "type"), reference),
    )


def _kinds() -> tuple[type, ...]:
    kinds: tuple[type, ...] = get_args(event.Event)
    missing = set(kinds) ^ set(event._NAMES)
    if missing:
        raise SystemExit(f"events without a name, or names without an event: {missing}")
    return kinds


def _fields(kind: type) -> str:
    return ", ".join(code(name) for name in get_type_hints(kind))


def _type(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))
