"""The tally of a worker: how many runs have ended, in which way, since it was last written down.

It is counted in memory, so that no transaction of the work has one statement more, and written with the
heartbeat. A worker that is killed takes the last seconds of it along: these figures are for a plot, and what
is true of a run stands with the run. Runs that are cancelled before they are begun end in no worker; they are
counted where they are cancelled.
"""

from __future__ import annotations

from collections import Counter

from redrive.store.tallies import Tallies


class Tally:
    def __init__(self) -> None:
        self._ended: Counter[tuple[str, str]] = Counter()

    def run_ended(self, org: str, state: str) -> None:
        self._ended[org, state] += 1

    async def write(self, tallies: Tallies) -> None:
        """What cannot be written is kept for the next time."""
        ended, self._ended = self._ended, Counter()
        try:
            await tallies.count_ended(ended)
        except BaseException:
            self._ended.update(ended)
            raise
