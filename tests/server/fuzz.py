"""Thousands of requests against the API, as every role: `python -m tests.server.fuzz`."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from schemathesis import GenerationMode
from tests.server.fuzzer import LETTERS, TARGETS, Fuzzer
from tests.server.house import new_app, served
from tests.server.two_orgs import HOME, OTHER, two_orgs
from tests.servers import postgresql


@contextmanager
def fuzzing(url: str, org: str, schema: str = "redrive", letters: int = LETTERS) -> Iterator[Fuzzer]:
    """Serve an application on its own event loop, with two organizations that have rows of every kind."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        house = runner.run(stack.enter_async_context(served(new_app(url, schema))))
        try:
            world = runner.run(two_orgs(house, letters))
            yield Fuzzer(runner, world, world.orgs[org])
        finally:
            runner.run(stack.aclose())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.server.fuzz", description=__doc__)
    parser.add_argument(
        "--examples", type=int, default=20, help="random requests for each operation and mode"
    )
    parser.add_argument("--seed", type=int, default=0, help="another number gives other requests")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, postgresql() as server:
        found = [
            _campaign(url, org, options.examples, options.seed)
            for url, org in ((server.url, HOME), (f"sqlite:///{folder}/fuzz.db", OTHER))
        ]
    return 1 if any(found) else 0


def _campaign(url: str, org: str, examples: int, number: int) -> int:
    """Run the campaign and return the number of faults."""
    begun = time.monotonic()
    with fuzzing(url, org) as fuzzer:
        fuzzer.restocks = True
        for mode in GenerationMode:
            for target in TARGETS:
                fuzzer.ask_all(fuzzer.at_the_bounds(mode), [target])
            fuzzer.ask_all(fuzzer.at_random(mode, examples, number))
        figures = ", ".join(f"{many:,} {kind}" for kind, many in sorted(fuzzer.calls.items()))
        print(f"{url.partition(':')[0]}, {org}: {figures} in {time.monotonic() - begun:.0f} s")
        for fault in fuzzer.faults.values():
            print(f"\n{fault}")
        return len(fuzzer.faults)


if __name__ == "__main__":
    raise SystemExit(main())
