"""The language for runs: the same as that for dead letters, with other keys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from redrive.model.alias import RUN_ALIASES
from redrive.model.query import Value
from redrive.model.run import ENDED_RUNS, FAILED_RUNS, LIVE_RUNS, RunState, Standing
from redrive.policy.criterion import TIMES, Language, Reader, read_number, read_states, read_text, read_time

RUN_WORDS: Mapping[str, tuple[Value, ...]] = MappingProxyType(
    {state.lower(): (state,) for state in RunState}
    | {str(each): (each,) for each in Standing}
    | {word: (meaning,) for word, meaning in RUN_ALIASES.items()}
    | {"live": LIVE_RUNS, "failed": FAILED_RUNS, "ended": ENDED_RUNS, "any": tuple(RunState)}
)
"""What `is:` takes. `failed` is more than the state of that name: all that has ended without success."""

_READERS: Mapping[str, Reader] = MappingProxyType(
    {"is": partial(read_states, RUN_WORDS)}
    | dict.fromkeys(("workflow", "queue", "id", "key", "correlation", "tag", "version"), read_text)
    | dict.fromkeys(("priority", "attempts"), read_number)
    | dict.fromkeys(TIMES, read_time)
)

RUNS = Language("runs", _READERS, has_text=False)
