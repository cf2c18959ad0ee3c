"""No four characters of a secret of the corpus reach a stored column, or a line of the log (I9).

A run keeps its own input, because it needs it. Everything else is redacted first and derived afterwards.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.policy import redaction_corpus as corpus
from tests.server.hostile import house_on
from tests.server.house import House
from tests.server.rows import all_rows
from tests.server.test_hostile_canaries import NEEDED

from redrive import Backoff, RetryPolicy
from redrive.observe.log import LogListener
from redrive.parts import parts_of
from redrive.policy import Immediate
from redrive.policy.redact import Redactor

PIECE = 4
"""Characters of a secret that must not be stored together."""

_LIKE_IDS_AND_TIMES = re.compile(r"[0-9a-fTZ\W]+")
RUNS = 400
OPERATED = 40


def recognised(samples: Iterable[corpus.Sample], redactor: Redactor) -> list[corpus.Sample]:
    """Samples of text that the redactor finds; `tests/policy/test_redact.py` counts the others."""
    return [
        sample
        for sample in samples
        if isinstance(sample.content, str)
        and not any(corpus.survives(secret, redactor.text(sample.content)) for secret in sample.secrets)
    ]


def unlikely_pieces(secret: str) -> set[str]:
    """The pieces of a secret that are in no id, digest or time."""
    return {piece for piece in pieces_of(secret) if not _LIKE_IDS_AND_TIMES.fullmatch(piece)}


def pieces_of(text: str) -> set[str]:
    return {text[start : start + PIECE] for start in range(len(text) - PIECE + 1)}


@pytest.fixture
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    kind, _, strategy = request.param.partition(" ")
    settings = {"dlq_strategy": strategy} if strategy else {}
    async with house_on(request, kind, tmp_path, **settings) as house:
        _add_work(house)
        house.app.listen(LogListener())
        yield house


def _add_work(house: House) -> None:
    @house.app.task(retry=RetryPolicy(max_attempts=2, backoff=Backoff(Immediate())))
    async def fail(texts: dict[str, Any]) -> None:
        try:
            raise ConnectionError(texts["cause"])
        except ConnectionError as cause:
            error = RuntimeError(texts["message"])
            error.add_note(texts["note"])
            raise error from cause

    @house.app.task(queue="other")
    async def rest() -> None: ...


async def fail(house: House, texts: Sequence[str]) -> None:
    """Fail with each text as a message, a cause, a note and a field of the payload."""
    count = len(texts)
    for number, text in enumerate(texts):
        cause, note = texts[(number + 1) % count], texts[(number + 2) % count]
        await house.app.start("fail", {"message": text, "cause": cause, "note": note})
    await house.work()


async def operate(house: House, texts: Sequence[str]) -> None:
    """Change runs, dead letters, groups and queues, with each text as a reason or a note."""
    failures = house.app.failures()
    letters = (await failures.list(size=OPERATED)).lines
    for letter, text in zip(letters, texts, strict=False):
        await failures.note(letter.id, text)
        await failures.ignore(letter.id, text)
        await failures.reopen(letter.id, text)
        await failures.replay(letter.id, reason=text)
        await house.app.queues().pause("other", reason=text)
        await (await house.app.start("rest")).cancel(reason=text)
    for fingerprint, text in zip({letter.fingerprint for letter in letters}, texts, strict=False):
        await failures.groups.ignore(fingerprint, text)
        await failures.groups.reopen(fingerprint, text)
    await house.work()


async def stored(house: House) -> dict[tuple[str, str], str]:
    """The text of every column of every table, but for what runs need."""
    columns: dict[tuple[str, str], list[str]] = {}
    for table, rows in (await all_rows(house.app)).items():
        for row in rows:
            for column, value in row.items():
                if (table, column) not in NEEDED:
                    columns.setdefault((table, column), []).append(str(value))
    return {place: "\n".join(values) for place, values in columns.items()}


class Survivors:
    """What is left of secrets after the same work was done with and without them."""

    def __init__(self, house: House, log: pytest.LogCaptureFixture, most: int) -> None:
        redactor = parts_of(house.app).redactor
        samples = recognised((*corpus.secret_samples(), *corpus.held_out_samples()), redactor)
        samples = samples[:: max(1, len(samples) // most)]
        self.texts = [sample.content for sample in samples]
        self.harmless_texts = [redactor.text(text) for text in self.texts]
        self._secrets = {secret for sample in samples for secret in sample.secrets}
        self._house = house
        self._log = log
        self._harmless: set[str] = set()

    async def expect(self) -> None:
        """Take all that is stored now as harmless."""
        self._harmless = {piece for text in (await self._places()).values() for piece in pieces_of(text)}
        self._log.clear()

    async def found(self) -> dict[tuple[str, str], list[str]]:
        """The pieces of secrets by the places where they are stored."""
        secret = {piece for text in self._secrets for piece in unlikely_pieces(text)} - self._harmless
        assert len(secret) > 1_000
        places = {place: sorted(secret & pieces_of(text)) for place, text in (await self._places()).items()}
        return {place: pieces for place, pieces in places.items() if pieces}

    async def _places(self) -> dict[tuple[str, str], str]:
        lines = [f"{record.getMessage()} {record.__dict__}" for record in self._log.records]
        return {**await stored(self._house), ("the", "log"): "\n".join(lines)}


@pytest.mark.parametrize("house", ["sqlite", "postgres"], indirect=True)
async def test_no_part_of_a_secret_reaches_a_stored_column_i9(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "redrive")
    survivors = Survivors(house, caplog, RUNS)
    await fail(house, survivors.harmless_texts)
    await operate(house, survivors.harmless_texts)
    await survivors.expect()
    await fail(house, survivors.texts)
    await operate(house, survivors.texts)
    tables = {table for table, _ in await stored(house)}
    assert tables >= {"attempts", "dead_letters", "failure_groups", "audit", "dead_letter_notes", "replays"}
    assert await survivors.found() == {}


@pytest.mark.parametrize("house", ["sqlite manual", "postgres manual"], indirect=True)
async def test_no_part_of_a_secret_reaches_the_event_of_a_rejected_dead_letter_i9(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "redrive")
    survivors = Survivors(house, caplog, RUNS // 4)
    await fail(house, survivors.harmless_texts)
    await survivors.expect()
    await fail(house, survivors.texts)
    assert "run_events" in {table for table, _ in await stored(house)}
    assert await survivors.found() == {}
