"""What people at Acme can put right themselves: the table of shipping zones, which lacks a country."""

from __future__ import annotations

import tomllib
from pathlib import Path

from redrive.demo.acme.checkout import ZONES

COUNTRY, ZONE = "NO", 3
KNOWN = {"CH": 1, "DE": 1, "AT": 1, "FR": 2, "IT": 2, "SE": 3}


class ShopFloor:
    """`pages` is where the pages of Redrive are, once that is known."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / ZONES
        self.pages = ""

    def prepare(self) -> None:
        lines = [f"{country} = {zone}\n" for country, zone in KNOWN.items()]
        self.file.write_text("# The shipping zone of each country.\n" + "".join(lines), encoding="utf-8")

    @property
    def is_fixed(self) -> bool:
        try:
            return COUNTRY in tomllib.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError):
            return False

    @property
    def line(self) -> str:
        return f"{COUNTRY} = {ZONE}"

    def add_zone(self) -> None:
        if not self.is_fixed:
            text = self.file.read_text(encoding="utf-8")
            self.file.write_text(f"{text.rstrip()}\n{self.line}\n", encoding="utf-8")
