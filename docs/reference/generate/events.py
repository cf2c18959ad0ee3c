"""Generates the page of all events that a listener receives."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from docs.reference.generate.page import NOTE, cell, code, page, said, table

from redrive.model import event

INTRODUCTION = (
    "`app.listen(function)` calls the function with each of these events (`redrive.model.event`). The logs "
    "use the same events. The function must return quickly; an exception that it raises does not affect the "
    "run. `name_of(event)` returns the name of an event. `fields_of(event)` returns its fields as a flat "
    "mapping with the names used in all logs: durations are in milliseconds, and the "
    "[reference to the step](#which-step) and the failure are split into separate fields."
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
        table(("name", "class", "fields", "meaning"), rows),
        "## Which step",
        cell(said(event.StepRef)) + " The fields of `ref`:",
        table(("field", "type"), reference),
    )


def _kinds() -> tuple[type, ...]:
    kinds: tuple[type, ...] = get_args(event.Event)
    missing = set(kinds) ^ set(event._NAMES)
    if missing:
        raise SystemExit(f"these events have no name, or these names no event: {missing}")
    return kinds


def _fields(kind: type) -> str:
    return ", ".join(code(name) for name in get_type_hints(kind))


def _type(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))
