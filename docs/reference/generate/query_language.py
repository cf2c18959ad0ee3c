"""Generates the page of the query language. It must describe exactly the keys that exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from docs.reference.generate.page import NOTE, page, table

from redrive.model.alias import DEAD_LETTER_ALIASES, RUN_ALIASES
from redrive.model.dead_letter import DeadLetterState
from redrive.model.failure import Category, ErrorClass
from redrive.model.id import MIN_PREFIX_LENGTH
from redrive.model.query import MAX_COUNTED
from redrive.model.run import FAILED_RUNS, RunPosition, RunState
from redrive.model.step import Effect
from redrive.policy.query import KEY_ALIASES, MAX_QUERY_LENGTH, MAX_TERMS, MAX_VALUES
from redrive.policy.query_language import GROUP_WORDS, GROUPS, KEYS, RUNS
from redrive.store.dead_letter_filter import INDEXED
from redrive.store.run_filter import _IN_KEYS as RUN_WALKED
from redrive.store.run_filter import _RARE as RUN_RARE


def query_language() -> str:
    letters = _keys(MEANINGS, KEYS, INDEXED)
    runs = _keys(RUN_MEANINGS, RUNS.readers, {"is", "since", "until", *RUN_WALKED, *RUN_RARE})
    groups = _keys(GROUP_MEANINGS, GROUPS.readers, {"is", "group", "since", "until", "fp"})
    parts = [*LANGUAGE, letters, *LANGUAGE_LIMITS, *GROUP_LANGUAGE, groups, GROUP_LIMITS]
    return page(*parts, *RUN_LANGUAGE, runs, RUN_LIMITS)


def _keys(meanings: Mapping[str, tuple[str, str]], keys: Iterable[str], indexed: Collection[str]) -> str:
    missing = set(keys) ^ set(meanings)
    if missing:
        raise SystemExit(
            f"the meanings must describe exactly the keys of the language; missing or unknown: {missing}"
        )
    rows = [
        (f"`{key}`", meaning, values, "yes" if key in indexed else "")
        for key, (meaning, values) in meanings.items()
    ]
    return table(("key", "matches", "values", "indexed"), rows)


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


NAME, NUMBER = "one or more names", "`3`, `>3`, `>=3`, `<3`, `<=3`, `3..5`"
TIME = "`30m`, `2h`, `7d`, `4w` (ago); `2026-11-01` (UTC); `2026-11-01T09:30:00Z`"
ALIASES = ", ".join(
    f"`{word}` for `{state.lower()}`" for word, state in DEAD_LETTER_ALIASES.items() if word != state.lower()
)
IDS = f"one or more ids, or at least the first {MIN_PREFIX_LENGTH} digits of each"
MEANINGS = {
    "is": (
        "the state",
        f"{_words(each.lower() for each in DeadLetterState)}; `scheduled` and `unscheduled` (open, with "
        f"or without an automatic redrive to come); `needs-you` (unscheduled or exhausted), `heals-itself` "
        f"(scheduled or replaying), `live`, `closed`, `any`; {ALIASES}",
    ),
    "category": ("the category of the error", _words(Category)),
    "class": ("the class of the error: whether a retry may help", _words(ErrorClass)),
    "step": ("the name of the step", NAME),
    "task": ("the name of the task", NAME),
    "workflow": ("the name of the workflow; for a job, the name of its task", NAME),
    "queue": ("the queue of the run", NAME),
    "fp": (
        "the fingerprint",
        f"the whole fingerprint, or at least its first {MIN_PREFIX_LENGTH} digits; `v1:` is optional",
    ),
    "error": ("the type of the error", "a full name: `TimeoutError`, `httpx.ReadTimeout`"),
    "code": ("the public code", "one or more codes"),
    "status": ("the HTTP status", NUMBER),
    "run": ("the run", IDS),
    "id": ("the dead letter", IDS),
    "correlation": ("the correlation id of the run", "one or more ids"),
    "assignee": ("the assignee", "one or more names; `me`; `none`"),
    "tag": ("the tags", "one or more tags; one match is enough"),
    "template": ("the template used to handle it", NAME),
    "breaker": ("the breaker of the task", NAME),
    "version": ("the version of the code that failed", "`code_version` of the worker"),
    "effect": ("the effect of executing it twice", _words(Effect)),
    "redrive": (
        "the policy for automatic redrives",
        "`never`, `linear`, `exponential`, `immediate`, `custom:…`",
    ),
    "attempts": ("attempts so far", NUMBER),
    "replays": ("replays so far, manual and automatic", NUMBER),
    "redrives": ("automatic redrives so far", NUMBER),
    "priority": ("the priority of the run", NUMBER),
    "since": ("became a dead letter at this time or later", TIME),
    "until": ("became a dead letter before this time", TIME),
}
LANGUAGE = (
    "# The query language",
    NOTE,
    "A query finds [dead letters](../guides/dead-letters.md) for lists, counts, bulk changes and bulk "
    "replays. With other keys, the same language finds [failure groups](#failure-groups) and [runs](#runs).",
    '```text\nis:open category:timeout,network -step:charge attempts:>3 since:2h "connection reset"\n```',
    "Terms are separated by spaces, and all of them must match. `key:a,b` matches any of the values; with a "
    "minus in front it matches none of them. A term without a key must occur in the title, the message or "
    "the type of the error, regardless of case. Inside quotes, spaces, commas and colons are literal, and a "
    "backslash makes the next character literal. An empty query matches everything.",
    "Keys, states and other fixed words are not case-sensitive; names and ids are. Redrive rejects an "
    "unknown key or value, and reports its position and a suggestion. "
    + ", ".join(f"`{other}:` is another name of `{key}:`" for other, key in KEY_ALIASES.items())
    + ".",
)
LANGUAGE_LIMITS = (
    "## Limits to know",
    f"- A query has at most {MAX_QUERY_LENGTH:,} characters, {MAX_TERMS} terms, and {MAX_VALUES} values in a "
    "term.\n"
    "- All terms must match. There is no *or* between different keys, and there are no parentheses.\n"
    "- A list is read from an index on state and time. The index itself skips dead letters that do not match "
    "an indexed term. For a term that is not indexed, Redrive reads every dead letter that is left. That is "
    "fast next to an indexed term with few matches; alone, it may read all dead letters.\n"
    f"- Counts stop at {MAX_COUNTED:,}.\n"
    "- `since` and `until` refer to the time at which it became a dead letter, not to the last failed "
    "replay. They cannot be negated.\n"
    "- For characters beyond ASCII, free text matches three forms only: lower case, upper case and "
    "capitalized.\n"
    "- `redrive` matches only the policies listed above. A policy given as a `RetryPolicy` cannot be found "
    "by its name.",
)
OF_GROUP = "of its newest failure"
GROUP_MEANINGS = {
    "is": ("the states of its dead letters; one match is enough", MEANINGS["is"][1]),
    "group": ("the state of the group itself", f"{_words(GROUP_WORDS)}; `regressed` groups are also `open`"),
    "category": (f"the category of the error {OF_GROUP}", MEANINGS["category"][1]),
    "workflow": (f"the name of the workflow {OF_GROUP}; for a job, the name of its task", NAME),
    "step": (f"the name of the step {OF_GROUP}", NAME),
    "task": (f"the name of the task {OF_GROUP}", NAME),
    "error": (f"the type of the error {OF_GROUP}", MEANINGS["error"][1]),
    "fp": MEANINGS["fp"],
    "occurrences": ("occurrences so far", NUMBER),
    "since": ("occurred at this time or later", TIME),
    "until": ("occurred before this time, and not since", TIME),
}
GROUP_LANGUAGE = (
    "## Failure groups",
    "The same language finds [failure groups](../guides/failure-groups.md) with these keys, latest or most "
    "frequent first. A term without a key must occur in the title or the type of the error.",
    "```text\nis:open category:timeout group:regressed occurrences:>100\n```",
)
GROUP_LIMITS = (
    "- `is` matches the states of dead letters, as everywhere. `-is:open` finds groups that have a dead "
    "letter in another state, even if they have open ones too. `group` matches the state of the group: "
    "`is:open group:resolved` finds groups that are marked as resolved but still have open dead letters.\n"
    "- Redrive rejects keys that only single dead letters have, such as `queue`. In a query for dead letters "
    "it rejects `group` and `occurrences`.\n"
    "- A group that is ignored for a limited time becomes `open` again at the end of that time.\n"
    "- For a term that is not indexed, Redrive checks one group after the other."
)
RUN_WORDS = ", ".join(f"`{word}` for `{meaning.lower()}`" for word, meaning in RUN_ALIASES.items())
RUN_MEANINGS = {
    "is": (
        "the state or position",
        f"{_words(each.lower() for each in RunState if each is not RunState.FAILED)}; "
        f"`live`, `ended`, `any`, and `failed` for {_words(FAILED_RUNS)}; {_words(RunPosition)}; {RUN_WORDS}",
    ),
    "workflow": ("the name of the workflow; for a job, the name of its task", NAME),
    "queue": ("the current or last queue", NAME),
    "id": ("the run", IDS),
    "key": ("the idempotency key of the start", "one or more keys"),
    "correlation": ("the correlation id; the id of the run if none was given", "one or more ids"),
    "tag": ("the tags", "one or more tags; one match is enough"),
    "version": ("the version of the code that last executed it", "`code_version` of the worker"),
    "priority": ("the priority", NUMBER),
    "attempts": ("attempts of the current step", NUMBER),
    "since": ("started at this time or later", TIME),
    "until": ("started before this time", TIME),
}
RUN_LANGUAGE = (
    "## Runs",
    "The same language finds runs with these keys, newest first. Runs have no text, so Redrive rejects a "
    "term without a key.",
    "```text\nis:failed workflow:checkout since:7d\n```",
)
RUN_LIMITS = (
    "- `running` matches runs that have started and not finished; `executing` matches those that a worker is "
    "executing now. `retrying` matches runs whose failed step will be executed again, `waiting` runs that "
    "are due later or wait for an earlier run with the same order key, `parked` only the latter, `held` runs "
    "that wait for a breaker or a limit, and `ready` runs that a worker may claim. `replaying` matches "
    "finished runs that were started again. `blocked` matches runs that ended "
    "because their step is `BLOCKED`.\n"
    "- `queue` uses an index for unfinished runs. For finished runs, Redrive checks one run after the "
    "other.\n"
    "- `since` and `until` refer to the time at which the run was started. They cannot be negated."
)
