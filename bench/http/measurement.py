"""One measurement: a process that sends requests to the servers in turn, and prints the results as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import psutil
import uvloop
from bench.http.case import Known, case_of
from bench.http.client import Client, Turn

WARM_UP = 0.3


@dataclass(frozen=True)
class Order:
    """A measurement to make.

    case         the name of the request
    servers      the port and the process of each server, by name
    known        the values that the requests need
    connections  the number of connections
    seconds      the length of a turn
    rounds       the number of turns of each server
    """

    case: str
    servers: Mapping[str, tuple[int, int]]
    known: tuple[str, str]
    connections: int
    seconds: float
    rounds: int

    @property
    def line(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class Seen:
    """The results of one server: a value for each turn, and totals of processor seconds and requests."""

    rate: list[float] = field(default_factory=list)
    half: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    spent: float = 0.0
    number: int = 0

    def add(self, turn: Turn, spent: float) -> None:
        self.rate.append(turn.rate)
        self.half.append(turn.half)
        self.most.append(turn.most)
        self.spent += spent
        self.number += turn.number


async def measure(order: Order) -> dict[str, Seen]:
    case = case_of(order.case, Known(*order.known))
    clients = {name: Client(port, case, order.connections) for name, (port, _) in order.servers.items()}
    seen = {name: Seen() for name in clients}
    for client in clients.values():
        await client.open()
        await client.turn(WARM_UP)
    for number in range(order.rounds):
        # The first server of a round has the caches as the other one left them.
        for name in sorted(clients, reverse=bool(number % 2)):
            before = _spent(order.servers[name][1])
            turn = await clients[name].turn(order.seconds)
            seen[name].add(turn, _spent(order.servers[name][1]) - before)
    for client in clients.values():
        client.close()
    return seen


def _spent(process: int) -> float:
    times = psutil.Process(process).cpu_times()
    return float(times.user + times.system)


def main(line: str) -> None:
    order = Order(**json.loads(line))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seen = runner.run(measure(order))
    print(json.dumps({name: asdict(each) for name, each in seen.items()}))


if __name__ == "__main__":
    main(sys.argv[1])
