"""The primary dies or freezes repeatedly, and its synchronous standby takes over."""

from __future__ import annotations

import time

from tests.cluster.postgres import eventually, pair
from tests.cluster.report import Report
from tests.cluster.site import CLOCKS, now, site

ROUND = ("freeze", "freeze", "kill", "kill")
"""The faults, with the primary alternately the first and the second host of the address."""
BEFORE_PROMOTION = 2.0
LIMIT = 12.0
"""Seconds from the promotion to the effects of every worker."""


def failover(report: Report, count: int, limit: float = LIMIT) -> None:
    with pair() as servers, site(report) as cluster:
        for clock in CLOCKS:
            cluster.hire("worker", servers.url, clock=clock)
        for _ in range(2):
            cluster.hire("enqueuer", servers.url)
        cluster.until_all_work(0.0)
        cluster.tell_clocks()
        for number in range(count):
            how, place = ROUND[number % 4], ("first", "second")[servers.primary is servers.second]
            old = servers.primary
            time.sleep(2.0)
            struck = now()
            if how == "freeze":
                old.freeze()
                eventually(lambda node=old: node.is_frozen)  # type: ignore[misc]
            else:
                old.kill()
            time.sleep(BEFORE_PROMOTION)
            servers.promote()
            promoted = now()
            start = cluster.seconds_until("acknowledged", promoted)
            workers = cluster.until_all_work(promoted)
            failed = cluster.count("store.failed", struck)
            report.tell(
                f"failover {number + 1}, {how} of the {place} host: after the promotion first start "
                f"{start:.1f} s, first effect {min(workers):.1f} s, all workers {max(workers):.1f} s; "
                f"{failed} failed operations"
            )
            if not failed:
                report.find(f"failover {number + 1} never took effect")
            report.require(max(start, *workers), limit, f"failover {number + 1}")
            servers.add_standby()  # this ends the frozen server
        cluster.settle(servers.url)
