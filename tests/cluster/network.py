"""Hosts in network namespaces, each on a cable to the server. A cut cable drops packets silently.

A cut gives one end, or both, a wrong hardware address for the other, so its packets reach no host.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

NOBODY = "02:00:00:00:de:ad"
BOTH, TO_SERVER, TO_HOST = "both ways", "to the server", "to the host"
WAYS = (BOTH, TO_SERVER, TO_HOST)


class Host:
    def __init__(self, number: int) -> None:
        self._name = f"redrive-{os.getpid()}-{number}"
        self._cable, self._far = f"rd{os.getpid() % 100_000}s{number}", f"rd{os.getpid() % 100_000}h{number}"
        self.server, self.address = f"10.209.{number}.1", f"10.209.{number}.2"

    @property
    def command(self) -> tuple[str, ...]:
        """Return the prefix of a command that runs on this host."""
        return ("ip", "netns", "exec", self._name)

    def open(self) -> None:
        _ip("netns", "add", self._name)
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", self._far, "netns", self._name)
        _ip("address", "add", f"{self.server}/30", "dev", self._cable)
        _ip("link", "set", self._cable, "up")
        _ip("-n", self._name, "address", "add", f"{self.address}/30", "dev", self._far)
        _ip("-n", self._name, "link", "set", self._far, "up")
        _ip("-n", self._name, "link", "set", "lo", "up")

    def close(self) -> None:
        for arguments in (("link", "del", self._cable), ("netns", "del", self._name)):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip(*arguments)

    def cut(self, ways: str) -> None:
        if ways in (BOTH, TO_SERVER):
            _ip("-n", self._name, *_neighbor(self.server, self._far))
        if ways in (BOTH, TO_HOST):
            _ip(*_neighbor(self.address, self._cable))

    def mend(self) -> None:
        for arguments in (
            ("-n", self._name, "neigh", "del", self.server, "dev", self._far),
            ("neigh", "del", self.address, "dev", self._cable),
        ):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip(*arguments)


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Yield hosts. Raise PermissionError if this user may not create namespaces."""
    opened = [Host(number) for number in range(1, count + 1)]
    try:
        for host in opened:
            try:
                host.open()
            except (OSError, subprocess.CalledProcessError) as error:
                raise PermissionError(f"no network namespaces here: {error}") from error
        yield opened
    finally:
        for host in opened:
            host.close()


def _neighbor(address: str, device: str) -> tuple[str, ...]:
    return ("neigh", "replace", address, "lladdr", NOBODY, "dev", device, "nud", "permanent")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
