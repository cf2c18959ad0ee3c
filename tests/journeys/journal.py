"""Side effects of tasks: lines in a file to which every process appends."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "JOURNEY_JOURNAL"


@dataclass(frozen=True)
class Entry:
    what: str
    at: float
    process: int
    facts: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]


def note(what: str, /, **facts: Any) -> None:
    """Append a line. Tasks call this in any process."""
    line = json.dumps({"what": what, "at": time.time(), "process": os.getpid(), "facts": facts}) + "\n"
    file = os.open(os.environ[VARIABLE], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, *whats: str) -> list[Entry]:
        """Return the entries of these names, in order."""
        if not self.path.exists():
            return []
        entries = [Entry(**json.loads(line)) for line in self.path.read_text().split("\n")[:-1]]
        return [entry for entry in entries if not whats or entry.what in whats]

    def count(self, what: str, /, **facts: Any) -> int:
        return len([each for each in self.of(what) if facts.items() <= each.facts.items()])
