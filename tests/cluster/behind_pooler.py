"""Two PgBouncers in front of one server: the first one dies or freezes, or the server is killed."""

from __future__ import annotations

import time

from tests.cluster.pooler import PROGRAM, pooler
from tests.cluster.postgres import eventually, single
from tests.cluster.report import Report
from tests.cluster.site import CLOCKS, now, site
from tests.servers import HOST

from redrive.app import Redrive
from redrive.errors import StoreError

KILLED, FROZEN, SERVER = "kill the pooler in use", "freeze the pooler in use", "kill the server"
FAULTS = (KILLED, FROZEN, SERVER)
LIMIT = 12.0
"""Seconds from the fault to the effects of every worker; the server is up again by then."""


def behind_pooler(report: Report, count: int, limit: float = LIMIT) -> None:
    if PROGRAM is None:
        report.tell("SKIPPED: pgbouncer is not installed")
        return
    with single() as server, pooler(server.port) as first, pooler(server.port) as second:
        places = f"{HOST}:{first.port},{HOST}:{second.port}"
        url = f"postgresql://postgres@{places}/postgres?target_session_attrs=any"
        _require_advice(report, url)

        with site(report, pooler=True) as cluster:
            for clock in CLOCKS:
                cluster.hire("worker", url, clock=clock)
            for _ in range(2):
                cluster.hire("enqueuer", url)
            cluster.until_all_work(0.0)
            cluster.tell_clocks()
            for number in range(count):
                name = FAULTS[number % 3]
                time.sleep(2.0)
                in_use = max((first, second), key=lambda pooler: pooler.clients)
                struck = now()
                if name == SERVER:
                    server.kill()
                    time.sleep(2.0)
                    server.start()
                elif name == FROZEN:
                    in_use.freeze()
                    eventually(lambda pooler=in_use: pooler.is_frozen)  # type: ignore[misc]
                else:
                    in_use.kill()
                time.sleep(0.5)  # executing tasks end
                over = now()
                workers = cluster.until_all_work(over)
                failed = cluster.count("store.failed", struck)
                report.tell(
                    f"{name}: all workers after {max(workers) + 0.5:.1f} s; {failed} failed operations"
                )
                if not failed:
                    report.find(f"{name}: never took effect")
                report.require(max(workers), limit, name)
                if name == FROZEN:
                    in_use.thaw()
                elif name == KILLED:
                    in_use.start()
            cluster.settle(url)


def _require_advice(report: Report, url: str) -> None:
    """Check that without `pooler=True`, the error says what to do."""
    app = Redrive(url, log=False)
    try:
        app.sync.open()
    except StoreError as error:
        report.tell(f"without pooler=True: {error}")
        if "set pooler=True" not in str(error):
            report.find("the refusal of PgBouncer comes without advice")
    else:
        report.find("PgBouncer accepts the session settings")
    app.sync.close()
