"""Sums (I16): every run is in a known state, and limits count the slots that leased runs have noted."""

from __future__ import annotations

from collections import Counter

from redrive.model.run import RunState
from redrive.store.records import slot_names
from redrive.store.verification import Verification
from redrive.verify.verdict import Verdict

_STATES = frozenset(map(str, RunState))


async def check_sums(store: Verification, verdict: Verdict) -> None:
    verdict.begin("I16")
    for state, runs in await store.ask("states"):
        verdict.look("I16", runs)
        if state not in _STATES:
            verdict.find("I16", state, f"{runs:,} runs are in this state, which is none: nobody counts them.")
    await _check_slots(store, verdict)


async def _check_slots(store: Verification, verdict: Verdict) -> None:
    in_use: dict[str, int] = {}
    noted: Counter[str] = Counter()
    for kind, text, number in await store.ask("slots"):
        if kind == "in use":
            in_use[text] = number
        else:
            for name in slot_names(text):
                noted[name] += number
    verdict.look("I16", len(in_use))
    for name in sorted(in_use.keys() | noted.keys()):
        counted = in_use.get(name, 0)
        if counted != noted[name]:
            text = f"The limit counts {counted} slots in use, but leased runs have noted {noted[name]}."
            verdict.find("I16", name, text)
