"""Stored decisions: what was decided about a failed attempt, in a few words."""

from __future__ import annotations

import re

from redrive.model.decision import Reason

_COMPUTATION = ("wait ", "due ", "failure ")
_MAX_ATTEMPTS = re.compile(r"at most (\d+) attempts")


def summarize_explanation(explanation: str) -> str:
    """Drop from a stored explanation how the decision was computed: "all 4 attempts are used up".

    A text that Redrive didn't write stays as it is.
    """
    rule, *others = explanation.split("; ")
    parts = others if " (rule " in rule else [rule, *others]
    parts = [part for part in parts if not part.startswith(_COMPUTATION)]
    most = _MAX_ATTEMPTS.search(explanation)
    if most and Reason.ATTEMPTS_SPENT.sentence in parts:
        parts[parts.index(Reason.ATTEMPTS_SPENT.sentence)] = f"all {most[1]} attempts are used up"
    return "; ".join(parts) or explanation
