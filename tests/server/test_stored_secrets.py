"""No four characters of a secret of the corpus reach a stored column, or a line of the log (I9).

A run keeps its own input, because it needs it. Everything else is redacted first and derived afterwards.
"""

from __future__ import annotations

import logging
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from tests.policy import redaction_corpus as corpus
from tests.server.hostile import house_on
from tests.server.house import House
from tests.server.rows import all_rows
from tests.server.test_hostile_canaries import NEEDED

from redrive import Backoff, RetryPolicy
from redrive.errors import InvalidValueError
from redrive.observe.log import LogListener
from redrive.parts import parts_of
from redrive.policy import Immediate
from redrive.policy.redact import Redactor
from redrive.policy.user_text import clean_reason

PIECE = 4
"""The number of consecutive characters of a secret that must not be stored."""

_LIKE_IDS_AND_TIMES = re.compile(r"[0-9a-fTZ\W]+")
PARTS = 8
SOME = 100
"""How many samples of the corpus `make test` uses, evenly spread."""

OPERATED = 24
OPERATIONS = 6


def recognized(samples: Iterable[corpus.Sample], redactor: Redactor) -> list[corpus.Sample]:
    """Samples that the redactor finds; `tests/policy/test_redact.py` counts the others."""
    return [
        sample
        for sample in samples
        if not any(
            corpus.survives(secret, text)
            for text in strings_in(redactor.value(sample.content))
            for secret in sample.secrets
        )
    ]


def strings_in(value: Any) -> list[str]:
    match value:
        case dict():
            return [text for pair in value.items() for each in pair for text in strings_in(each)]
        case list() | tuple():
            return [text for each in value for text in strings_in(each)]
    return [str(value)]


def in_base64(sample: corpus.Sample) -> list[str]:
    """Return the secrets of a sample in base64, as a payload stores bytes."""
    return [
        b64encode(value).decode()
        for value in bytes_in(sample.content)
        if any(secret.encode() in value for secret in sample.secrets)
    ]


def bytes_in(value: Any) -> list[bytes]:
    match value:
        case dict():
            return [each for pair in value.items() for each in bytes_in(pair)]
        case list() | tuple():
            return [found for each in value for found in bytes_in(each)]
        case bytes():
            return [value]
    return []


def chosen(samples: list[corpus.Sample], which: str) -> list[corpus.Sample]:
    """Some of the samples, or one of the parts that together are all of them."""
    if which == "some":
        return samples[:: len(samples) // SOME]
    return samples[int(which.removeprefix("part ")) - 1 :: PARTS]


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
    async def fail(texts: dict[str, Any]) -> None:
        try:
            raise ConnectionError(texts["cause"])
        except ConnectionError as cause:
            error = RuntimeError(texts["message"])
            error.add_note(texts["note"])
            raise error from cause

    house.app.task(name="fail", max_attempts=1)(fail)
    house.app.task(name="fail twice", retry=RetryPolicy(max_attempts=2, backoff=Backoff(Immediate())))(fail)

    @house.app.task(queue="other")
    async def rest() -> None: ...


async def fail(house: House, texts: Sequence[str], documents: Sequence[Any], work: str = "fail") -> None:
    """Fail with each text as a message, a cause, a note and a field, and with each document in a payload."""
    causes, notes = [*texts[1:], *texts[:1]], [*texts[2:], *texts[:2]]
    payloads = [
        {"message": text, "cause": cause, "note": note, "document": document}
        for text, cause, note, document in zip(texts, causes, notes, cycle(documents), strict=False)
    ]
    await house.app.start_many(work, payloads)
    await house.work()


async def operate(house: House, texts: Sequence[str]) -> None:
    """Change runs, dead letters, groups and queues, with each text as a reason or a note."""
    failures = house.app.failures()
    letters = (await failures.list(size=max(OPERATED, len(texts) // OPERATIONS + 1))).lines
    reasons: Iterator[str] = cycle(text for text in texts if is_accepted(text))
    for letter in letters:
        await failures.note(letter.id, next(reasons))
        await failures.ignore(letter.id, next(reasons))
        await failures.reopen(letter.id, next(reasons))
        await failures.replay(letter.id, reason=next(reasons))
        await house.app.queues().pause("other", reason=next(reasons))
        await (await house.app.start("rest")).cancel(reason=next(reasons))
    for fingerprint in sorted({letter.fingerprint for letter in letters})[:OPERATED]:
        await failures.groups.ignore(fingerprint, next(reasons))
        await failures.groups.reopen(fingerprint, next(reasons))
    await house.work()


def is_accepted(text: str) -> bool:
    try:
        clean_reason(text, Redactor())
    except InvalidValueError:
        return False
    return True


async def stored(house: House) -> dict[tuple[str, str], str]:
    """Return the text of every column of every table, except columns that runs need."""
    columns: dict[tuple[str, str], list[str]] = {}
    for table, rows in (await all_rows(house.app)).items():
        for row in rows:
            for column, value in row.items():
                if (table, column) not in NEEDED:
                    columns.setdefault((table, column), []).append(str(value))
    return {place: "\n".join(values) for place, values in columns.items()}


class Survivors:
    """Collects pieces of secrets that remain after the same work was done with and without them."""

    def __init__(self, house: House, log: pytest.LogCaptureFixture, which: str) -> None:
        redactor = parts_of(house.app).redactor
        samples = recognized((*corpus.secret_samples(), *corpus.held_out_samples()), redactor)
        samples = chosen(samples, which)
        contents = [sample.content for sample in samples]
        self.texts = [content for content in contents if isinstance(content, str)]
        self.documents = [content for content in contents if not isinstance(content, str)]
        self.harmless_texts = [redactor.text(text) for text in self.texts]
        self.harmless_documents = [redactor.value(document) for document in self.documents]
        self._secrets = {secret for sample in samples for secret in (*sample.secrets, *in_base64(sample))}
        self._house = house
        self._log = log
        self._harmless: set[str] = set()

    async def expect(self) -> None:
        """Treat everything stored so far as harmless."""
        self._harmless = {piece for text in (await self._places()).values() for piece in pieces_of(text)}
        self._log.clear()

    async def found(self) -> dict[tuple[str, str], list[str]]:
        """Return the pieces of secrets by the place where they are stored."""
        secret = {piece for text in self._secrets for piece in unlikely_pieces(text)} - self._harmless
        assert len(secret) > 1_000
        places = {place: sorted(secret & pieces_of(text)) for place, text in (await self._places()).items()}
        return {place: pieces for place, pieces in places.items() if pieces}

    async def _places(self) -> dict[tuple[str, str], str]:
        lines = [f"{record.getMessage()} {record.__dict__}" for record in self._log.records]
        return {**await stored(self._house), ("the", "log"): "\n".join(lines)}


@pytest.mark.parametrize("which", ["some", *(f"part {number + 1}" for number in range(PARTS))])
@pytest.mark.parametrize("house", ["sqlite", "postgres"], indirect=True)
async def test_no_part_of_a_secret_reaches_a_stored_column_i9(
    house: House, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "redrive")
    survivors = Survivors(house, caplog, which)
    work = "fail twice" if which == "some" else "fail"
    await fail(house, survivors.harmless_texts, survivors.harmless_documents, work)
    await operate(house, survivors.harmless_texts)
    await survivors.expect()
    await fail(house, survivors.texts, survivors.documents, work)
    await operate(house, survivors.texts)
    tables = {table for table, _ in await stored(house)}
    assert tables >= {"attempts", "dead_letters", "failure_groups", "audit", "dead_letter_notes", "replays"}
    assert await survivors.found() == {}


@pytest.mark.parametrize("house", ["sqlite manual", "postgres manual"], indirect=True)
async def test_no_part_of_some_secret_reaches_the_event_of_a_rejected_dead_letter_i9(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "redrive")
    survivors = Survivors(house, caplog, "some")
    await fail(house, survivors.harmless_texts, survivors.harmless_documents)
    await survivors.expect()
    await fail(house, survivors.texts, survivors.documents)
    assert "run_events" in {table for table, _ in await stored(house)}
    assert await survivors.found() == {}


def test_the_message_about_a_refused_reason_shows_no_secret_i9() -> None:
    """Redaction, as in every problem, would still show what was escaped and cut before it."""
    redactor, refused = Redactor(), 0
    for sample in (*corpus.secret_samples(), *corpus.held_out_samples()):
        if isinstance(sample.content, str) and not is_accepted(sample.content):
            refused += 1
            with pytest.raises(InvalidValueError) as caught:
                clean_reason(sample.content, redactor)
            message = redactor.text(str(caught.value))
            assert not any(corpus.survives(secret, message) for secret in sample.secrets), message
    assert refused


def test_the_parts_are_the_whole_corpus() -> None:
    samples = recognized((*corpus.secret_samples(), *corpus.held_out_samples()), Redactor())
    parts = [chosen(samples, f"part {number + 1}") for number in range(PARTS)]
    assert len(samples) > 4_000
    assert {id(sample) for part in parts for sample in part} == {id(sample) for sample in samples}
