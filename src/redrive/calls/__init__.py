"""Outbound calls with timeouts, error classification, retries, circuit breakers and retry budgets."""

from redrive.calls.attempt import Attempt, current_attempt
from redrive.calls.dependency import Dependency, dependency
from redrive.calls.event import log_fields

__all__ = ["Attempt", "Dependency", "current_attempt", "dependency", "log_fields"]
