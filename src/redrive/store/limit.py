"""What a tenant's view of a database is given: an org, and seconds that no statement of it exceeds."""

from __future__ import annotations

from redrive.errors import InvalidValueError, StatementTimeoutError
from redrive.policy.bounds import require

LEAST_SECONDS = 0.001
MAX_SECONDS = 60.0


def check_tenant(org: object, seconds: object) -> None:
    if not isinstance(org, str) or not org or not org.isprintable():
        raise InvalidValueError(f"the org of a tenant must be a name, got {org!r}")
    require("the time limit of a statement, in seconds,", seconds, LEAST_SECONDS, MAX_SECONDS)


def out_of_time(seconds: float) -> StatementTimeoutError:
    return StatementTimeoutError(
        f"the query took longer than {seconds:g} s and was stopped; narrow it: a shorter time, one state, "
        f"one workflow or queue, a smaller page",
        seconds=seconds,
    )
