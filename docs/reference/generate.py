"""Writes the reference pages that follow from the code (`make docs`); a test finds them out of date."""

from __future__ import annotations

from pathlib import Path

from redrive.config import FILE_VARIABLE, SETTINGS
from redrive.model.breaker import BREAKER_TRANSITIONS
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS
from redrive.model.run import RUN_TRANSITIONS
from redrive.model.step import STEP_TRANSITIONS
from redrive.policy import PRESETS
from redrive.setting import PREFIX, Setting

HERE = Path(__file__).parent
NOTE = "<!-- Written by generate.py; change the code, then run make docs. -->"


def states() -> str:
    parts = ["# States", NOTE, "What is not drawn here cannot happen."]
    for table in (RUN_TRANSITIONS, STEP_TRANSITIONS, DEAD_LETTER_TRANSITIONS, BREAKER_TRANSITIONS):
        rows = [f"| `{each.before}` | `{each.after}` | {each.cause} |" for each in table.transitions]
        parts += [
            f"## {table.noun.capitalize()}",
            f"```mermaid\n{table.mermaid()}\n```",
            "\n".join(["| from | to | when |", "| --- | --- | --- |", *rows]),
        ]
    return "\n\n".join(parts) + "\n"


def policies() -> str:
    parts = [
        "# Policies",
        NOTE,
        "The named policies of `redrive.policy`, as `print(policy.explain())` shows them.",
    ]
    for policy in PRESETS.values():
        parts += [f"## {policy.name.capitalize()}", f"```text\n{policy.explain()}\n```"]
    return "\n\n".join(parts) + "\n"


def settings() -> str:
    aliases = ", ".join(f"`{setting.alias}`" for setting in SETTINGS if setting.alias)
    rows = [f"| `{each.name}` | {_default(each)} | {each.bounds} | {each.meaning} |" for each in SETTINGS]
    parts = [
        "# Settings",
        NOTE,
        "How an application and its workers behave where the code does not say it. What the code says wins "
        "over the environment, and that over the file.",
        "\n".join(["| setting | default | allowed | meaning |", "| --- | --- | --- | --- |", *rows]),
        f"In the environment a setting is `{PREFIX}` and its name in capitals: `{SETTINGS[0].environment}`. "
        f"These are read without the prefix too: {aliases}.",
        "The file is TOML, or YAML if its name ends in `.yaml` or `.yml` (with `redrive[yaml]`), at the path "
        f"that `{FILE_VARIABLE}` names. It holds the settings under their names, at its top or in a table "
        "`[redrive]`. A value out of its bounds is refused, with a message "
        "that names them; so is a name that is not known.",
    ]
    return "\n\n".join(parts) + "\n"


def _default(setting: Setting) -> str:
    default = setting.without if setting.default is None else setting.default
    default = str(default).lower() if isinstance(default, bool) else default
    return f"`{default}`" if default != "" else ""


PAGES = {"states.md": states, "policies.md": policies, "settings.md": settings}


def main() -> None:
    for name, write in PAGES.items():
        (HERE / name).write_text(write())


if __name__ == "__main__":
    main()
