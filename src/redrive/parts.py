"""The parts of an application, for the interfaces of Redrive. Programs use the methods of the application."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from redrive.app import Redrive
    from redrive.clock import Clock
    from redrive.store.database import Database
    from redrive.wiring import Parts


def parts_of(app: Redrive) -> Parts:
    return app._parts


def rewire(app: Redrive, database: Database, clock: Clock, random: Random) -> Parts:
    """Put an application on another database, and return its parts there. What it has declared stays."""
    app._parts = type(app._parts)(app._parts.declared, database, clock, random)
    return app._parts
