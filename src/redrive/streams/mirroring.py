"""The mirror of dead letters: each becomes one entry of the stream `.dlq`, for tools that read streams."""

from __future__ import annotations

from redrive.clock import Clock
from redrive.events.mirror import LetterMirror
from redrive.streams.commands import StreamCommands

REMEMBERED_SECONDS = 7 * 86_400.0
"""How long Redis remembers the key of an entry whose removal from the outbox was not reported."""


async def mirror_letters(mirror: LetterMirror, commands: StreamCommands, clock: Clock) -> int:
    """Deliver the dead letters in the outbox. Return how many there were.

    A process that dies between the entry and the removal leaves the letter in the outbox; the next one finds
    its key in Redis, and adds no second entry.
    """
    delivered = 0
    while letters := await mirror.take():
        now = clock.now()
        for letter in letters:
            if letter.fields:
                await commands.mirror(letter.key, letter.fields, now, now - REMEMBERED_SECONDS)
        await mirror.remove(letters)
        await commands.forget_mirrored(letter.key for letter in letters)
        delivered += len(letters)
    return delivered
