"""Settings with bounds, from a file (TOML or YAML), the environment and arguments.

Each field of `Settings` declares its default, its meaning, its type and its bounds. Parsing, messages,
`redrive config` and the table in the documentation follow from that.

The file holds the settings by name, at its top level or in a table `[redrive]`. A variable of the
environment, such as REDRIVE_WORKER_CONCURRENCY, overrides the file; an empty one counts as not set. An
argument of the command line overrides both.
"""

from redrive.settings.setting import ALIASES, PREFIX, Setting
from redrive.settings.settings import DEFAULT_TASK_TIMEOUT, SETTINGS, Settings, new_encryption_key
from redrive.settings.sources import FILE_VARIABLE, Argument

__all__ = [
    "ALIASES",
    "DEFAULT_TASK_TIMEOUT",
    "FILE_VARIABLE",
    "PREFIX",
    "SETTINGS",
    "Argument",
    "Setting",
    "Settings",
    "new_encryption_key",
]
