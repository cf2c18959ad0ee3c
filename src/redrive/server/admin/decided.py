"""A stored decision in a few words: what was decided, without how it was computed."""

from __future__ import annotations

import re

from redrive.model.decision import Reason

_COMPUTED = ("wait ", "due ", "failure ")
_MAX_COUNT = re.compile(r"at most (\d+) attempts")


def decided(explanation: str) -> str:
    """All 4 attempts are used up. A text that is not one of ours stays as it is."""
    rule, *others = explanation.split("; ")
    told = [each for each in [*([] if " (rule " in rule else [rule]), *others] if _is_told(each)]
    most = _MAX_COUNT.search(explanation)
    if most and Reason.ATTEMPTS_SPENT.sentence in told:
        told[told.index(Reason.ATTEMPTS_SPENT.sentence)] = f"all {most[1]} attempts are used up"
    return "; ".join(told) or explanation


def _is_told(part: str) -> bool:
    return not part.startswith(_COMPUTED)
