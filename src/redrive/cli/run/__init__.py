"""`redrive run`: what was started, how far it is, and why."""

from redrive.cli.run.command import run

__all__ = ["run"]
