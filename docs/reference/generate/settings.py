"""Generates the page of all settings."""

from __future__ import annotations

from docs.reference.generate.page import NOTE, page, table

from redrive.settings import FILE_VARIABLE, OTHER_NAMES, PREFIX, SETTINGS, Setting


def settings() -> str:
    aliases = ", ".join(f"`{setting.alias}`" for setting in SETTINGS if setting.alias)
    others = ", ".join(f"`{other}` for `{name}`" for other, name in OTHER_NAMES.items())
    rows = [(f"`{each.name}`", _default(each), each.bounds, each.meaning) for each in SETTINGS]
    return page(
        "# Settings",
        NOTE,
        "Settings control an application, its workers and its server where the code does not. Command "
        "arguments override the environment, which overrides the file: see "
        "[configuration](../guides/configuration.md).",
        table(("setting", "default", "allowed", "meaning"), rows),
        f"The environment variable of a setting is `{PREFIX}` followed by the name in capitals, for example "
        f"`{SETTINGS[0].environment}`. Redrive also reads these variables without the prefix: {aliases}.",
        f"Some settings have another name, which files, variables and arguments may use instead: {others}.",
        f"`{FILE_VARIABLE}` is the path of the file. The file is TOML, or YAML if its name ends in `.yaml` "
        "or `.yml` (requires `redrive[yaml]`). It contains the settings at the top level or in a table "
        "`[redrive]`. Redrive rejects a value outside its bounds with a message that names the bounds. It "
        f"also rejects unknown names, including environment variables that start with `{PREFIX}`.",
    )


def _default(setting: Setting) -> str:
    default = setting.none if setting.default is None else setting.default
    default = str(default).lower() if isinstance(default, bool) else default
    return f"`{default}`" if default != "" else ""
