"""The page of the query language: every key of it must be told of here, no more and no less."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from docs.reference.generate.page import NOTE, page, table

from redrive.model.alias import DEAD_LETTER_ALIASES, RUN_ALIASES
from redrive.model.dead_letter import DeadLetterState
from redrive.model.failure import Category, ErrorClass
from redrive.model.query import MAX_COUNTED
from redrive.model.run import FAILED_RUNS, RunPosition, RunState
from redrive.model.step import Effect
from redrive.policy.query import MAX_QUERY_LENGTH, MAX_TERMS, MAX_VALUES
from redrive.policy.query_language import GROUP_WORDS, GROUPS, KEYS, MIN_PREFIX_LENGTH, RUNS
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
            f"the meanings must tell of the keys of the language, no more and no less: {missing}"
        )
    rows = [
        (f"`{key}`", meaning, values, "yes" if key in indexed else "")
        for key, (meaning, values) in meanings.items()
    ]
    return table(("key", "what it looks at", "values", "indexed"), rows)


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
        f"{_words(each.lower() for each in DeadLetterState)}; `scheduled`, `unscheduled`: open, and will be "
        f"redriven automatically or not; `needs-you` (unscheduled or exhausted), `heals-itself` (scheduled "
        f"or replaying), `live`, `closed`, `any`; {ALIASES}",
    ),
    "category": ("what the error means", _words(Category)),
    "class": ("whether trying again may help", _words(ErrorClass)),
    "step": ("the name of the step", NAME),
    "task": ("the name of the task", NAME),
    "workflow": ("the name of the workflow; of a job, that of its task", NAME),
    "queue": ("the queue of its run", NAME),
    "fp": (
        "the fingerprint",
        f"all of it, or its first {MIN_PREFIX_LENGTH} digits or more; `v1:` may be left out",
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
    "Finds [dead letters](../guides/dead-letters.md), for lists, counts, bulk changes and bulk replays, and "
    "with other keys their [groups](#failure-groups) and [runs](#runs).",
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
    f"- A query has at most {MAX_QUERY_LENGTH:,} characters, {MAX_TERMS} terms, and {MAX_VALUES} values in a "
    "term.\n"
    "- All terms must hold; there is no *or* between different keys, and there are no brackets.\n"
    "- A list is read along an index of state and time. Letters that do not fulfil an indexed term are "
    "skipped within the index. For a term that is not indexed every letter is read: next to an indexed term "
    "that few letters fulfil this is quick, alone it may read all of them.\n"
    f"- Counts stop at {MAX_COUNTED:,}.\n"
    "- `since` and `until` are about the moment in which it became a dead letter, not about the last replay "
    "that has failed; they cannot be negated.\n"
    "- Free text finds letters beyond ASCII in three forms only: small, capital, and a capital first.\n"
    "- `redrive` knows the policies that have a word; those that were given as a `RetryPolicy` are not found "
    "by their names.",
)
OF_GROUP = "of the newest of its failures"
GROUP_MEANINGS = {
    "is": ("the states of its dead letters: one of them in such a state is enough", MEANINGS["is"][1]),
    "group": ("the state of the group itself", f"{_words(GROUP_WORDS)}; `regressed` are `open`, too"),
    "category": (f"what the error means, {OF_GROUP}", MEANINGS["category"][1]),
    "workflow": (f"the name of the workflow, {OF_GROUP}; of a job, that of its task", NAME),
    "step": (f"the name of the step, {OF_GROUP}", NAME),
    "task": (f"the name of the task, {OF_GROUP}", NAME),
    "error": (f"the type of the error, {OF_GROUP}", MEANINGS["error"][1]),
    "fp": MEANINGS["fp"],
    "occurrences": ("how often it has occurred so far", NUMBER),
    "since": ("it has occurred then, or later", TIME),
    "until": ("it has occurred before, and not since", TIME),
}
GROUP_LANGUAGE = (
    "## Failure groups",
    "The same language finds [failure groups](../guides/failure-groups.md), the latest or the most frequent "
    "first, with these keys. What stands without a key must occur in the title or the type of the error.",
    "```text\nis:open category:timeout group:regressed occurrences:>100\n```",
)
GROUP_LIMITS = (
    "- `is` speaks of dead letters, as everywhere; `-is:open` finds the groups that have a dead letter in "
    "another state, open ones or not. `group` speaks of what was said about the group: "
    "`is:open group:resolved` are groups whose cause is gone and whose dead letters are still open.\n"
    "- A key that only single dead letters have, as `queue`, is refused; so are `group` and `occurrences` in "
    "a query for dead letters.\n"
    "- A group that was ignored for a time is `open` when that is over.\n"
    "- What is not indexed is looked at group by group."
)
RUN_WORDS = ", ".join(f"`{word}` for `{meaning.lower()}`" for word, meaning in RUN_ALIASES.items())
RUN_MEANINGS = {
    "is": (
        "its state, or where it stands",
        f"{_words(each.lower() for each in RunState if each is not RunState.FAILED)}; "
        f"`live`, `ended`, `any`, and `failed` for {_words(FAILED_RUNS)}; {_words(RunPosition)}; {RUN_WORDS}",
    ),
    "workflow": ("the name of the workflow; of a job, that of its task", NAME),
    "queue": ("the queue that it is in, or was in last", NAME),
    "id": ("the run", "an id, or several"),
    "key": ("the idempotency key that it was started with", "a key, or several"),
    "correlation": ("its correlation id; its own id where none was given", "an id, or several"),
    "tag": ("its tags", "a tag, or several of which one is enough"),
    "version": ("the version of the code that has executed it last", "`code_version` of the worker"),
    "priority": ("its priority", NUMBER),
    "attempts": ("attempts of its current step", NUMBER),
    "since": ("it was started then, or later", TIME),
    "until": ("it was started before", TIME),
}
RUN_LANGUAGE = (
    "## Runs",
    "The same language finds runs, newest first, with these keys. Runs have no text: a term without a key is "
    "refused.",
    "```text\nis:failed workflow:checkout since:7d\n```",
)
RUN_LIMITS = (
    "- `running` is every run that was begun and has not ended; `executing` are those of them that a worker "
    "executes just now. `retrying` are those whose step has failed and will be executed again, `waiting` "
    "everything that is due later, `held` what waits for a breaker or a limit, `ready` what a worker may "
    "take. `replaying` are runs that had ended and were sent on again. `blocked` are runs that have ended "
    "because their step is `BLOCKED`.\n"
    "- `queue` is read along an index for runs that have not ended; among the others, it is looked at one "
    "run after the other.\n"
    "- `since` and `until` are about the moment in which the run was started; they cannot be negated."
)
