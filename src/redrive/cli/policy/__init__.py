"""`redrive policy`: what a retry policy does, and what another one would have done."""

from redrive.cli.policy.command import policy

__all__ = ["policy"]
