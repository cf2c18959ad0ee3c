"""The application that workers and the server load: `redrive worker acme.app:app`."""

from __future__ import annotations

from pathlib import Path

from redrive.settings import Settings

from .outside import Outside
from .work import made

app = made(Settings.load(), Outside.of_environment(), Path(__file__).parents[1], log=True)
