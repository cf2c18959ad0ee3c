"""`redrive policy`: what a retry policy does, and what another one would have done."""

from __future__ import annotations

import click

from redrive.cli.ordered import OrderedGroup
from redrive.cli.policy.explain import explain
from redrive.cli.policy.list import list_policies
from redrive.cli.policy.simulate import simulate


@click.group(cls=OrderedGroup)
def policy() -> None:
    """Retry policies: list, explain, simulate a changed one.

    A policy says how often a failed step is executed again, how long apart, and after which errors.
    """


for each in (list_policies, explain, simulate):
    policy.add_command(each)
