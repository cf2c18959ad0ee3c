"""`redrive dlq`: dead letters, work that has failed for good and waits for somebody."""

from redrive.cli.dlq.command import dlq

__all__ = ["dlq"]
