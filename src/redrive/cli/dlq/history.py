"""The history of a dead letter in words: what was done to it, said about it, and tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

_WORDS = {
    "dead_letter.resolved": "resolved it",
    "dead_letter.ignored": "ignored it",
    "dead_letter.archived": "archived it",
    "dead_letter.reopened": "reopened it",
    "dead_letter.revealed": "saw its payload with its secrets",
    "run.cancelled": "cancelled its run",
    "run.retried": "retried its run",
}
_TOLD_OTHERWISE = ("dead_letter.moved", "dead_letter.noted", "replay.")


class Deed(NamedTuple):
    at: str
    text: str


def deeds(letter: dict[str, Any]) -> list[Deed]:
    """The oldest first."""
    history = letter["history"]
    told = [
        *(_entry(each) for each in history["entries"] if not each["action"].startswith(_TOLD_OTHERWISE)),
        *map(_replay, history["replays"]),
        *(Deed(each["at"], f"{each['author']} noted: {each['text']}") for each in letter["notes"]),
    ]
    return sorted(told)


def _entry(entry: dict[str, Any]) -> Deed:
    together = len(entry["subjects"])
    text = f"{entry['actor']} {_deed(entry['action'], entry['detail'])}"
    others = f", with {together - 1:,} others" if together > 1 else ""
    reason = entry["detail"].get("reason")
    return Deed(entry["at"], text + others + (f": {reason}" if reason else ""))


def _deed(action: str, detail: dict[str, Any]) -> str:
    if action == "dead_letter.assigned":
        name = detail.get("assignee")
        return f"assigned it to {name}" if name else "took it from whoever looked after it"
    if action == "dead_letter.tagged":
        return " ".join(["tagged it", *_tags(detail)])
    return _WORDS.get(action) or action.replace("_", " ").replace(".", ": ")


def _tags(detail: dict[str, Any]) -> Iterator[str]:
    for key, sign in (("added", "+"), ("removed", "-")):
        for each in detail.get(key) or ():
            yield f"{sign}{each}"


def _replay(replay: dict[str, Any]) -> Deed:
    said = "; ".join(filter(None, (replay["reason"], replay["note"])))
    return Deed(replay["requested_at"], _replayed(replay) + (f" ({said})" if said else ""))


def _replayed(replay: dict[str, Any]) -> str:
    if replay["state"] == "PLANNED":
        return f"{replay['requested_by']} planned a replay, not started so far"
    what = "replayed the failed step alone" if replay["mode"] == "STEP_ONLY" else "replayed it"
    how = " automatically" if replay["automatic"] else ""
    edited = " with a changed payload" if replay["edit"] else ""
    return f"{replay['requested_by']} {what}{how}{edited}: {replay['state'].lower()}"
