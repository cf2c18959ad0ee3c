"""The external systems: they receive notes from processes, even from processes that die right after.

A note is one datagram to a socket of the test process. A note sent before a `kill -9` arrives, none arrives
partially, and a full disk does not affect it. An effect counts once per key; the others are duplicates.
"""

from __future__ import annotations

import json
import socket
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

MAX_ = 200_000


@dataclass(frozen=True, slots=True)
class Note:
    what: str
    at: float
    child: int
    facts: dict[str, Any]
    arrived: float
    """By the clock of the sink; `at` is the clock of the process, which may be wrong."""

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]


class Line:
    """The connection of a process to the sink."""

    def __init__(self, path: str, child: int) -> None:
        self._child = child
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_)
        self._socket.connect(path)

    def tell(self, what: str, /, **facts: Any) -> None:
        self._socket.send(json.dumps([what, time.time(), self._child, facts]).encode())

    def close(self) -> None:
        self._socket.close()


class Sink:
    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "sink")
        self._notes: defaultdict[str, list[Note]] = defaultdict(list)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._thread = Thread(target=self._receive, daemon=True)
        self._thread.start()

    def of(self, what: str) -> list[Note]:
        """Return the notes of this name, in the order of their arrival."""
        return list(self._notes[what])

    def count(self, what: str) -> int:
        return len(self._notes[what])

    def total(self, what: str, fact: str) -> int:
        return sum(note[fact] for note in self.of(what))

    @property
    def effects(self) -> dict[str, int]:
        """Return how often each key's effect arrived."""
        return Counter(note["key"] for note in self.of("effect"))

    @property
    def duplicates(self) -> int:
        """Count effects that arrived again for the same key in the same replay."""
        effects = self.of("effect")
        return len(effects) - len({(note["key"], note["replay"]) for note in effects})

    def close(self) -> None:
        end = Line(self.path, -1)
        end.tell("end")
        end.close()
        self._thread.join()
        self._socket.close()

    def _receive(self) -> None:
        while True:
            what, at, child, facts = json.loads(self._socket.recv(MAX_))
            note = Note(what, at, child, facts, arrived=time.time())
            if note.what == "end":
                return
            self._notes[note.what].append(note)
