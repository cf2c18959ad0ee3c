"""Fills a database with the scene, to look at pages."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from tests.browser.scene.building import Building
from tests.browser.scene.transfer import transfer


async def fill(url: str, scale: float, schema: str = "redrive") -> None:
    """Fill SQLite directly. PostgreSQL has its own clock, so copy the finished scene into it."""
    scheme, _, place = url.partition("://")
    if scheme == "sqlite":
        await Building(Path(place.removeprefix("/")), scale).build()
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.db"
        await Building(path, scale).build()
        await transfer(path, url, schema)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.scene", description=__doc__)
    parser.add_argument("--url", required=True, help="sqlite:///path/to/file.db or postgresql://…")
    parser.add_argument("--schema", default="redrive", help="the PostgreSQL schema")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is about 4,000 runs")
    arguments = parser.parse_args()
    asyncio.run(fill(arguments.url, arguments.scale, arguments.schema))


if __name__ == "__main__":
    main()
