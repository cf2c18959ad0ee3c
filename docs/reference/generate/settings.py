"""The page of all settings."""

from __future__ import annotations

from docs.reference.generate.page import NOTE, page, table

from redrive.settings import FILE_VARIABLE, PREFIX, SETTINGS, Setting


def settings() -> str:
    aliases = ", ".join(f"`{setting.alias}`" for setting in SETTINGS if setting.alias)
    rows = [(f"`{each.name}`", _default(each), each.bounds, each.meaning) for each in SETTINGS]
    return page(
        "# Settings",
        NOTE,
        "How an application, its workers and its server behave where the code does not say it. Arguments of "
        "a command win over the environment, and that over the file: see "
        "[configuration](../guides/configuration.md).",
        table(("setting", "default", "allowed", "meaning"), rows),
        f"In the environment a setting is `{PREFIX}` and its name in capitals: `{SETTINGS[0].environment}`. "
        f"These are read without the prefix too: {aliases}.",
        "The file is TOML, or YAML if its name ends in `.yaml` or `.yml` (with `redrive[yaml]`), at the path "
        f"that `{FILE_VARIABLE}` names. It holds the settings under their names, at its top or in a table "
        "`[redrive]`. A value out of its bounds is refused, with a message "
        f"that names them; so is a name that is not known, also of a variable that begins with `{PREFIX}`.",
    )


def _default(setting: Setting) -> str:
    default = setting.none if setting.default is None else setting.default
    default = str(default).lower() if isinstance(default, bool) else default
    return f"`{default}`" if default != "" else ""
