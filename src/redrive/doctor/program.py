"""The program and its tables: whether their versions match, and whether it has the encryption keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from redrive.doctor.finding import MAX_NAMED, Finding, State, count, ok
from redrive.store.schema import Schema
from redrive.words.number import names


def judge_program(redrive: str, python: str) -> Finding:
    return ok("program", f"Redrive {redrive} on Python {python}")


def judge_schema(schema: Schema) -> Finding:
    if schema.is_newer:
        return Finding(
            "schema",
            State.BAD,
            f"the tables are at version {schema.version}, this Redrive knows up to {schema.newest}",
            "A newer Redrive has migrated them, so this one does not touch them.",
            "Install that newer version here too.",
            "pip install --upgrade redrive",
        )
    if schema.is_current:
        return ok("schema", f"the tables are at version {schema.version}, as this Redrive needs them")
    seen = f"the tables are at version {schema.version}, this Redrive needs {schema.newest}"
    return Finding(
        "schema",
        State.BAD,
        seen if schema.applied else "there are no tables of Redrive in this database",
        "Work was not looked at. An application brings its tables up to date by itself when it starts.",
        "Bring them up to date yourself, to choose the moment.",
        "redrive migrate",
    )


def judge_encryption(sealed: Mapping[str, int], keys: Collection[str]) -> Finding:
    """`keys` are the ids of the configured keys."""
    strange = {key: number for key, number in sealed.items() if key not in keys}
    if strange:
        return Finding(
            "encryption",
            State.BAD,
            f"{count(sum(strange.values()), 'unfinished run')} cannot be opened here: encrypted with the key "
            f"{names(sorted(strange), MAX_NAMED)}, which is not configured",
            "Workers with these settings put such work aside until they have the key.",
            "Add the key to encryption_keys, behind the newest one.",
            "redrive config",
        )
    if not keys:
        return ok("encryption", "no key is configured: payloads are stored as they are")
    return ok("encryption", f"{count(len(keys), 'key')} configured, and unfinished runs can be opened")
