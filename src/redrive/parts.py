"""Access to the parts of an application, for Redrive's own packages. Programs use the methods of the app."""

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
    """Move an application to another database and return its new parts. It keeps its declarations."""
    app._parts = type(app._parts)(app._parts.declared, database, clock, random)
    return app._parts
