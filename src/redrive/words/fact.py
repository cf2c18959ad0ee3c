"""Facts in sentences, and as JSON for the API: the code, the fields and the text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from redrive.model.fact import SENTENCE, CountedFact, Fact
from redrive.words.audit_chain import CHAIN_FAULTS
from redrive.words.event_replay import EVENT_REPLAYS
from redrive.words.grouping import GROUPINGS
from redrive.words.replay import REPLAYS
from redrive.words.stream import STREAMS
from redrive.words.timeline import TIMELINE
from redrive.words.verdict import VERDICTS

_SENTENCES = {**VERDICTS, **REPLAYS, **TIMELINE, **GROUPINGS, **CHAIN_FAULTS, **STREAMS, **EVENT_REPLAYS}


def text_of(fact: Fact) -> str:
    """Render a fact. A fact of a newer version, without a sentence here, is shown by its code."""
    if fact.code == SENTENCE:
        return str(fact.fields["text"])
    render = _SENTENCES.get(fact.code)
    return fact.code.replace("_", " ") if render is None else render(fact.fields)


def paragraph(facts: Iterable[Fact]) -> str:
    """Render the facts as sentences, joined with spaces."""
    return " ".join(text_of(fact) for fact in facts)


def to_json(fact: Fact) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(dict(fact.fields))
    return {"code": fact.code, **fields, "text": text_of(fact)}


def counted_to_json(counted: CountedFact) -> dict[str, Any]:
    return {**to_json(counted.fact), "items": counted.items}
