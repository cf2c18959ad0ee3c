"""Jobs are runs of one step. What others know under this address is the retry (P8)."""

from __future__ import annotations

from redrive.server.api import runs
from redrive.server.route import Routes

routes = Routes("jobs", "/api/jobs")
routes.post("/{id}/retry", runs.OPERATE, **runs.RETRIED)(runs.retry)
