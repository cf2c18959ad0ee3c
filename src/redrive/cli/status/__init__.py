"""`redrive status`: on one screen, what is broken, whether it heals by itself, and what to type next."""

from redrive.cli.status.command import status

__all__ = ["status"]
