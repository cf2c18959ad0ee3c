"""Settings for all tests. A busy machine must not fail a test; and CI tries the same examples every time."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "redrive",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("redrive")
