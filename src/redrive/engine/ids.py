"""Ids: made by the client, so that storing something twice is storing it once. They sort by time."""

from __future__ import annotations

from random import Random

from redrive.clock import Clock

_SEQUENCE_BITS, _RANDOM_BITS = 16, 68


class Ids:
    """44 bits of milliseconds, 16 that count within one, 68 random ones; 32 hexadecimal digits in all."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._last = 0

    def new(self) -> str:
        moment = int(self._clock.now() * 1000) << _SEQUENCE_BITS
        self._last = max(moment, self._last + 1)
        return f"{self._last:015x}{self._random.getrandbits(_RANDOM_BITS):017x}"

    def token(self) -> int:
        """A fencing token: 63 random bits."""
        return self._random.getrandbits(63)
