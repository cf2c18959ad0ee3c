"""`redrive replay`: bulk replays of dead letters, planned first, then started, steered and looked at."""

from redrive.cli.replay.command import replay

__all__ = ["replay"]
