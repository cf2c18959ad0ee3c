"""How much of the machine's time went to other programs: if it is much, the tables are worth little."""

from __future__ import annotations

import os
from pathlib import Path

_USER, _NICE, _SYSTEM, _IDLE, _WAITING, _INTERRUPTS, _SOFT, _STOLEN = range(8)


class Stopwatch:
    def __init__(self) -> None:
        self._before = _ticks()

    def circumstances(self) -> dict[str, str]:
        spent = [now - before for now, before in zip(_ticks(), self._before, strict=True)]
        total = max(1, sum(spent))
        return {
            "cores": str(os.cpu_count()),
            "load": f"{os.getloadavg()[0]:.1f}",
            "stolen": f"{spent[_STOLEN] / total:.1%}",
            "idle": f"{(spent[_IDLE] + spent[_WAITING]) / total:.1%}",
        }


def _ticks() -> list[int]:
    statistics = Path("/proc/stat")
    if not statistics.exists():
        return [0] * 8
    return [int(word) for word in statistics.read_text().splitlines()[0].split()[1:9]]
