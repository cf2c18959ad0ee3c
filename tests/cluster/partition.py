"""Workers on separate hosts lose the database, in one or both directions, and come back."""

from __future__ import annotations

import time

from tests.cluster.network import WAYS, hosts
from tests.cluster.postgres import single
from tests.cluster.report import Report
from tests.cluster.site import CLOCKS, now, site
from tests.servers import HOST

LIMIT = 5.0
"""Seconds from the return of the network to the first effect of the disconnected worker."""
LENGTHS = (30.0, 12.0, 20.0)


def partition(report: Report, count: int, limit: float = LIMIT) -> None:
    try:
        with hosts(len(CLOCKS)) as machines:
            addresses = ",".join([HOST, *(machine.server for machine in machines)])
            with single(addresses) as server, site(report) as cluster:
                for machine, clock in zip(machines, CLOCKS, strict=True):
                    url = server.url.replace(HOST, machine.server)
                    cluster.hire("worker", url, clock=clock, prefix=machine.command)
                for _ in range(2):
                    cluster.hire("enqueuer", server.url)
                cluster.until_all_work(0.0)
                cluster.tell_clocks()
                for number in range(count):
                    machine, worker = machines[number % 3], cluster.workers[number % 3]
                    ways, seconds = WAYS[number % 3], LENGTHS[number // 3 % 3]
                    time.sleep(3.0)
                    cut = now()
                    machine.cut(ways)
                    time.sleep(seconds)
                    failed = cluster.count("store.failed", cut, worker)
                    machine.mend()
                    back = now()
                    silent = not cluster.count("effect", back - seconds / 3, worker)
                    first = cluster.seconds_until("effect", back, worker)
                    report.tell(
                        f"partition {number + 1}, {ways}, {seconds:g} s: first effect {first:.1f} s after "
                        f"the network was back; {failed} failed operations"
                    )
                    if not (failed and silent):
                        report.find(f"partition {number + 1} never took effect")
                    report.require(first, limit, f"partition {number + 1}")
                cluster.settle(server.url)
    except PermissionError as error:
        report.tell(f"SKIPPED: {error}")
