"""Writes the reference pages that follow from the code (`make docs`); a test finds them out of date."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from redrive.config import FILE_VARIABLE, SETTINGS
from redrive.model.alias import DEAD_LETTER_ALIASES
from redrive.model.breaker import BREAKER_TRANSITIONS
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS, DeadLetterState
from redrive.model.failure import Category, ErrorClass
from redrive.model.failure_group import GROUP_TRANSITIONS
from redrive.model.replay import OPERATION_TRANSITIONS, REPLAY_TRANSITIONS
from redrive.model.run import RUN_TRANSITIONS
from redrive.model.step import STEP_TRANSITIONS, Effect
from redrive.policy import PRESETS
from redrive.policy.criterion import KEYS, SHORTEST_PREFIX
from redrive.policy.query import LONGEST_QUERY, MOST_TERMS, MOST_VALUES
from redrive.setting import PREFIX, Setting
from redrive.store.filter import _RARE, _WALKED
from redrive.store.listing import MOST_COUNTED

HERE = Path(__file__).parent
TABLES = (
    RUN_TRANSITIONS,
    STEP_TRANSITIONS,
    DEAD_LETTER_TRANSITIONS,
    GROUP_TRANSITIONS,
    REPLAY_TRANSITIONS,
    OPERATION_TRANSITIONS,
    BREAKER_TRANSITIONS,
)
NOTE = "<!-- Written by generate.py; change the code, then run make docs. -->"


def states() -> str:
    parts = ["# States", NOTE, "What is not drawn here cannot happen."]
    for table in TABLES:
        rows = [f"| `{each.before}` | `{each.after}` | {each.cause} |" for each in table.transitions]
        parts += [
            f"## {table.noun.capitalize()}",
            f"```mermaid\n{table.mermaid()}\n```",
            "\n".join(["| from | to | when |", "| --- | --- | --- |", *rows]),
        ]
    return "\n\n".join(parts) + "\n"


def policies() -> str:
    parts = [
        "# Policies",
        NOTE,
        "The named policies of `redrive.policy`, as `print(policy.explain())` shows them.",
    ]
    for policy in PRESETS.values():
        parts += [f"## {policy.name.capitalize()}", f"```text\n{policy.explain()}\n```"]
    return "\n\n".join(parts) + "\n"


def settings() -> str:
    aliases = ", ".join(f"`{setting.alias}`" for setting in SETTINGS if setting.alias)
    rows = [f"| `{each.name}` | {_default(each)} | {each.bounds} | {each.meaning} |" for each in SETTINGS]
    parts = [
        "# Settings",
        NOTE,
        "How an application and its workers behave where the code does not say it. What the code says wins "
        "over the environment, and that over the file.",
        "\n".join(["| setting | default | allowed | meaning |", "| --- | --- | --- | --- |", *rows]),
        f"In the environment a setting is `{PREFIX}` and its name in capitals: `{SETTINGS[0].environment}`. "
        f"These are read without the prefix too: {aliases}.",
        "The file is TOML, or YAML if its name ends in `.yaml` or `.yml` (with `redrive[yaml]`), at the path "
        f"that `{FILE_VARIABLE}` names. It holds the settings under their names, at its top or in a table "
        "`[redrive]`. A value out of its bounds is refused, with a message "
        "that names them; so is a name that is not known.",
    ]
    return "\n\n".join(parts) + "\n"


def _default(setting: Setting) -> str:
    default = setting.without if setting.default is None else setting.default
    default = str(default).lower() if isinstance(default, bool) else default
    return f"`{default}`" if default != "" else ""


def query_language() -> str:
    missing = set(KEYS) ^ set(MEANINGS)
    if missing:
        raise SystemExit(f"MEANINGS must tell of the keys of the language, no more and no less: {missing}")
    indexed = {"is", "since", "until", *_WALKED, *_RARE}
    rows = [
        f"| `{key}` | {meaning} | {values} | {'yes' if key in indexed else ''} |"
        for key, (meaning, values) in MEANINGS.items()
    ]
    table = ["| key | what it looks at | values | indexed |", "| --- | --- | --- | --- |", *rows]
    return "\n\n".join([*LANGUAGE, "\n".join(table), *LANGUAGE_LIMITS]) + "\n"


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


NAME, NUMBER = "a name, or several", "`3`, `>3`, `>=3`, `<3`, `<=3`, `3..5`"
TIME = "`30m`, `2h`, `7d`, `4w` ago; `2026-11-01` (UTC); `2026-11-01T09:30:00Z`"
ALIASES = ", ".join(
    f"`{word}` for `{state.lower()}`" for word, state in DEAD_LETTER_ALIASES.items() if word != state.lower()
)
MEANINGS = {
    "is": (
        "its state",
        f"{_words(each.lower() for each in DeadLetterState)}; `live`, `closed`, `any`; {ALIASES}",
    ),
    "category": ("what the error means", _words(Category)),
    "class": ("whether trying again may help", _words(ErrorClass)),
    "step": ("the name of the step", NAME),
    "task": ("the name of the task", NAME),
    "workflow": ("the name of the workflow; of a job, that of its task", NAME),
    "queue": ("the queue of its run", NAME),
    "fp": (
        "the fingerprint",
        f"all of it, or its first {SHORTEST_PREFIX} digits or more; `v1:` may be left out",
    ),
    "error": ("the type of the error", "its full name: `TimeoutError`, `httpx.ReadTimeout`"),
    "code": ("the public code", "a code, or several"),
    "status": ("the HTTP status", NUMBER),
    "run": ("the run", "an id, or several"),
    "id": ("the dead letter", "an id, or several"),
    "correlation": ("the correlation id of its run", "an id, or several"),
    "assignee": ("who looks after it", "a name, or several; `me`; `none`"),
    "tag": ("its tags", "a tag, or several of which one is enough"),
    "template": ("the template that has handled it", NAME),
    "breaker": ("the breaker of its task", NAME),
    "version": ("the version of the code that failed", "`code_version` of the worker"),
    "effect": ("what executing it twice would do", _words(Effect)),
    "redrive": (
        "the policy of its automatic redrives",
        "`never`, `linear`, `exponential`, `immediate`, `custom:…`",
    ),
    "attempts": ("attempts so far", NUMBER),
    "replays": ("replays so far, by hand and automatic ones", NUMBER),
    "redrives": ("automatic redrives so far", NUMBER),
    "priority": ("the priority of its run", NUMBER),
    "since": ("it became a dead letter then, or later", TIME),
    "until": ("it became a dead letter before", TIME),
}
LANGUAGE = (
    "# The query language",
    NOTE,
    "Finds [dead letters](../guides/dead-letters.md), for lists, counts, bulk changes and bulk replays.",
    '```text\nis:open category:timeout,network -step:charge attempts:>3 since:2h "connection reset"\n```',
    "Terms are separated by blanks, and all of them must hold. `key:a,b` is one of the values; a minus in "
    "front means none of them. What stands without a key must occur in the title, the message or the type of "
    "the error, in capitals or not. Quotes take everything as it is written: blanks, commas, colons; a "
    "backslash in them takes the next character as it is. An empty query is everything.",
    "Keys, states and other fixed words may be written in capitals; names and ids count as they are written. "
    "An unknown key or value is refused, with its place and a suggestion.",
)
LANGUAGE_LIMITS = (
    "## Limits to know",
    f"- A query has at most {LONGEST_QUERY:,} characters, {MOST_TERMS} terms, and {MOST_VALUES} values in a "
    "term.\n"
    "- All terms must hold; there is no *or* between different keys, and there are no brackets.\n"
    "- A list is read along an index of time and, if there are any, of indexed terms. Terms that are not "
    "indexed are looked at one dead letter after the other: beside an indexed one that few fulfil this is "
    "quick, alone it may read everything. A term with a minus is never read along an index.\n"
    f"- Counts stop at {MOST_COUNTED:,}.\n"
    "- `since` and `until` are about the moment in which it became a dead letter, not about the last replay "
    "that has failed; they cannot be negated.\n"
    "- Free text finds letters beyond ASCII in three forms only: small, capital, and a capital first.\n"
    "- `redrive` knows the policies that have a word; those that were given as a `RetryPolicy` are not found "
    "by their names.",
)

PAGES = {
    "states.md": states,
    "policies.md": policies,
    "settings.md": settings,
    "query-language.md": query_language,
}


def main() -> None:
    for name, write in PAGES.items():
        (HERE / name).write_text(write())


if __name__ == "__main__":
    main()
