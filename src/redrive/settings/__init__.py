"""Settings with bounds, from a file (TOML or YAML), the environment and arguments.

Each field of `Settings` declares its default, meaning, type and bounds. Parsing, messages, `redrive config`
and the table in the documentation use these declarations.

The file contains the settings by name, at its top level or in a table `[redrive]`. An environment variable,
such as REDRIVE_WORKER_CONCURRENCY, overrides the file; an empty one counts as not set. A command line
argument overrides both.
"""

from redrive.settings.setting import ALIASES, OTHER_NAMES, PREFIX, Setting
from redrive.settings.settings import DEFAULT_TASK_TIMEOUT, SETTINGS, Settings, new_encryption_key
from redrive.settings.sources import FILE_VARIABLE, Argument

__all__ = [
    "ALIASES",
    "DEFAULT_TASK_TIMEOUT",
    "FILE_VARIABLE",
    "OTHER_NAMES",
    "PREFIX",
    "SETTINGS",
    "Argument",
    "Setting",
    "Settings",
    "new_encryption_key",
]
