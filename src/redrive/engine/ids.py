"""Ids: made by the client, so that storing something twice is storing it once. They sort by time."""

from __future__ import annotations

import os
from random import Random, SystemRandom
from struct import Struct

from redrive.clock import Clock

_SEQUENCE_BITS, _RANDOM_BITS = 16, 68
_NUMBER = Struct("<QB")
_NUMBER_BITS = 72
_NUMBERS_PER_BLOCK = 4_096 // _NUMBER.size

_numbers: list[tuple[int, int]] = []
"""Random numbers that this process has drawn and not used yet."""

if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_numbers.clear)  # a child must not use the numbers of its parent


class BlockRandom(SystemRandom):
    """The random numbers of the operating system, read 4 KiB at a time.

    Threads may share it: taking a number off a list is atomic. A forked child reads numbers of its own.
    """

    def getrandbits(self, k: int, /) -> int:
        if not 0 <= k <= _NUMBER_BITS:
            return super().getrandbits(k)
        try:
            high, low = _numbers.pop()
        except IndexError:
            block = list(_NUMBER.iter_unpack(os.urandom(_NUMBERS_PER_BLOCK * _NUMBER.size)))
            high, low = block.pop()
            _numbers.extend(block)
        return (high << 8 | low) >> (_NUMBER_BITS - k)

    def random(self) -> float:
        return self.getrandbits(53) * 2.0**-53


class Ids:
    """44 bits of milliseconds, 16 that count within one, 68 random ones; 32 hexadecimal digits in all."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._last = 0

    def new(self) -> str:
        moment = int(self._clock.now() * 1000) << _SEQUENCE_BITS
        self._last = last = moment if moment > self._last else self._last + 1
        return f"{last << _RANDOM_BITS | self._random.getrandbits(_RANDOM_BITS):032x}"

    def token(self) -> int:
        """A fencing token: 63 random bits."""
        return self._random.getrandbits(63)
