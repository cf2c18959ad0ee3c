"""What somebody has probably meant by a query that was not understood: with its suggestion put in."""

from __future__ import annotations

import re

_SUGGESTION = re.compile(
    r"unknown (?:key|value) '(?P<wrong>[^']+)'(?: of '\w+')? at position (?P<place>\d+); "
    r"did you mean '(?P<right>[^']+)'\?"
)


def meant(query: str, problem: str) -> str:
    """The query to try instead; empty where nothing is suggested."""
    found = _SUGGESTION.search(problem)
    if found is None:
        return ""
    begin = int(found["place"]) - 1
    end = begin + len(found["wrong"])
    return query[:begin] + found["right"] + query[end:] if query[begin:end] == found["wrong"] else ""
