"""The current troubles: a JSON file that tests write, or the values of the scene."""

from __future__ import annotations

import json
import os
from binascii import crc32
from pathlib import Path
from random import Random
from typing import NamedTuple

VARIABLE = "ACME_TROUBLE"


class Trouble(NamedTuple):
    """A trouble of a service.

    kind     see acme.sdk.restful; "slow" only delays the response
    share    the share of requests with the trouble, chosen by key, so that repeated requests have it again
    flaky    choose the share by chance for each request
    seconds  the duration of the request
    said     the text of the response
    """

    kind: str
    share: float = 1.0
    flaky: bool = False
    seconds: float = 0.0
    said: str = ""


class Troubles:
    """The troubles by name: of a service, or of a bug in the shop's own code."""

    def __init__(self) -> None:
        self.known: dict[str, list[Trouble]] | None = None
        self.random = Random(7)

    def now(self) -> dict[str, list[Trouble]]:
        return self.known if self.known is not None else _in_file()

    def met(self, name: str, key: object = "") -> Trouble | None:
        for trouble in self.now().get(name, ()):
            draw = self.random.random() if trouble.flaky else _draw(name, trouble, key)
            if draw < trouble.share:
                return trouble
        return None


def _draw(name: str, trouble: Trouble, key: object) -> float:
    return crc32(f"{name} {trouble.kind} {trouble.said} {key}".encode()) / 2**32


def _in_file() -> dict[str, list[Trouble]]:
    path = os.environ.get(VARIABLE)
    if not path or not Path(path).exists():
        return {}
    stored = json.loads(Path(path).read_text())
    return {name: [_read(each) for each in several] for name, several in stored.items()}


def _read(each: str | dict[str, object]) -> Trouble:
    return Trouble(each) if isinstance(each, str) else Trouble(**each)  # type: ignore[arg-type]


TROUBLES = Troubles()
