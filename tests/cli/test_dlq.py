"""`redrive dlq`: list, groups, view, stats; on both databases, and against a server."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.shop import Shop

from redrive.server.admin.dead_letters import ListRequest, Sort, View


def ids(text: str) -> list[str]:
    return [line.split("\t")[0] for line in text.splitlines()]


def rows(command: Command, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command("dlq", *arguments, "-o", "json").out)
    return found


def test_lists_letters_that_are_not_closed(anywhere: Command, shop: Shop) -> None:
    first, second, third = (shop.dead_letter(number) for number in (1, 2, 3))
    assert anywhere("dlq", "resolve", second, "--yes").code == 0
    listed = anywhere("dlq", "list")
    assert (listed.code, ids(listed.out), listed.err) == (0, [third, first], "")
    assert ids(anywhere("dlq", "list", "is:any", "--oldest").out) == [first, second, third]
    assert [row["state"] for row in rows(anywhere, "list", "is:any")] == ["OPEN", "RESOLVED", "OPEN"]
    table = list(csv.DictReader(io.StringIO(anywhere("dlq", "list", "-o", "csv").out)))
    assert [(row["id"], row["step"]) for row in table] == [(third, "charge"), (first, "charge")]
    assert rows(anywhere, "list", "is:archived") == []


@pytest.mark.parametrize(
    ("status", "state"),
    [("pending", "OPEN"), ("OPEN", "OPEN"), ("completed", "RESOLVED"), ("replayed", "RESOLVED")],
)
def test_by_status_with_a_limit(redrive: Command, shop: Shop, status: str, state: str) -> None:
    """G12, and other systems' words for the states."""
    letters = [shop.dead_letter(number) for number in range(3)]
    shop.dead_letter(4)
    assert redrive("dlq", "resolve", *letters, "--yes").code == 0
    found = rows(redrive, "list", "--status", status, "--limit", "2")
    assert {row["state"] for row in found} == {state}
    assert len(found) == (1 if state == "OPEN" else 2)


@pytest.mark.parametrize("status", ["exhausted", "retrying", "discarded", "needs-you", "blocked"])
def test_all_words_for_states_are_known(redrive: Command, shop: Shop, status: str) -> None:
    shop.dead_letter(1)
    assert redrive("dlq", "list", "--status", status).code == 0


def test_a_query_that_begins_with_a_minus(redrive: Command, shop: Shop) -> None:
    """The pages quote a single word."""
    declined, slow = shop.dead_letter(1), shop.dead_letter(2, card="slow")
    assert ids(redrive("dlq", "list", "-error:TimeoutError").out) == [declined]
    assert ids(redrive("dlq", "list", "-error:redrive.errors.FinalError is:open").out) == [slow]
    assert ids(redrive("dlq", "list", "is:open", "-o", "plain", "-workflow:nothing").out) == [slow, declined]
    assert ids(redrive("dlq", "list", '"the gateway"').out) == [slow]


@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("query", ["is:needs-you", "is:open -category:timeout", "-step:ship"])
def test_as_the_pages_spell_it(redrive: Command, shop: Shop, view: View, query: str) -> None:
    """Commands accept the texts that pages offer for copying."""
    shop.dead_letter(1)
    program, *words = shlex.split(ListRequest(query, view, Sort.NEWEST, None).command)
    found = redrive(*words, "-o", "json")
    assert (program, found.code, len(json.loads(found.out))) == ("redrive", 0, 1)


@pytest.mark.parametrize("verb", ["list", "groups", "export"])
def test_a_wrong_query_gets_a_suggestion(anywhere: Command, verb: str) -> None:
    ended = anywhere("dlq", verb, "is:opne")
    assert (ended.code, ended.out) == (2, "")
    assert "unknown value 'opne' of 'is' at position 4; did you mean 'open'?" in ended.err


def test_groups(anywhere: Command, shop: Shop) -> None:
    for number in range(3):
        shop.dead_letter(number)
    slow = shop.dead_letter(9, card="slow")
    found = rows(anywhere, "groups")
    assert [(row["occurrences"], row["error_type"]) for row in found] == [
        (1, "TimeoutError"),
        (3, "redrive.errors.FinalError"),
    ]
    assert [row["occurrences"] for row in rows(anywhere, "groups", "--sort", "occurrences")] == [3, 1]
    table = list(csv.DictReader(io.StringIO(anywhere("dlq", "groups", "-o", "csv").out)))
    assert [(row["live"], row["occurrences"]) for row in table] == [("1", "1"), ("3", "3")]
    assert anywhere("dlq", "resolve", slow, "--yes").code == 0
    assert [row["occurrences"] for row in rows(anywhere, "groups")] == [3]
    assert rows(anywhere, "groups", "error:Nothing") == []


@pytest.mark.parametrize("spelled", ["{whole}", "{short}", "fp:{short}", "{digits}"])
def test_one_group(redrive: Command, shop: Shop, spelled: str) -> None:
    """By each name that the pages and the list show."""
    letter = shop.dead_letter(7, card="slow")
    [group] = rows(redrive, "groups")
    digits = group["fingerprint"].partition(":")[2]
    name = spelled.format(whole=group["fingerprint"], short=digits[:12], digits=digits)
    told = redrive("dlq", "groups", name)
    assert (told.code, told.err) == (0, "")
    assert re.fullmatch("the gateway gives no answer +open", told.out.splitlines()[0])
    for expected in ("1 open", "once", "Last 24 hours", letter, f"replay plan --group {digits[:12]}"):
        assert expected in told.out
    assert json.loads(redrive("dlq", "group", "view", name, "-o", "json").out)["sample"] == letter


def test_a_group_of_which_the_newest_is_gone(anywhere: Command, shop: Shop) -> None:
    assert anywhere("dlq", "groups", "abcdef123456").code == 3
    letter = shop.dead_letter(7)
    assert anywhere("dlq", "archive", letter, "--yes").code == 0
    [group] = rows(anywhere, "groups", "is:any")
    told = anywhere("dlq", "groups", group["fingerprint"])
    assert (told.code, "1 closed" in told.out) == (0, True)
    assert "Nothing: this dead letter is closed." in told.out


def test_the_view_of_a_dead_letter_has_what_a_decision_needs(anywhere: Command, shop: Shop) -> None:
    """Verdict, error, frame, attempts, redacted payload, and commands, in this order."""
    letter = shop.dead_letter(7, card="slow")
    told = anywhere("dlq", "view", letter)
    assert (told.code, told.err) == (0, "")
    assert told.out.splitlines()[0].split() == ["checkout", "›", "charge", "open"]
    parts = (
        "Why it stopped",
        "It stopped after 3 attempts with TimeoutError (timeout)",
        "What to do",
        "\nError",
        "TimeoutError: the gateway gives no answer",
        "shop.py:",
        "Attempts",
        "attempts spent",
        "Payload",
        "[redacted:password]",
        "Next",
        f"redrive dlq replay {letter}",
    )
    order = [told.out.index(part) for part in parts]
    assert order == sorted(order)
    assert "hunter2" not in told.out
    assert max(map(len, told.out.splitlines())) <= 80


def test_with_the_whole_traceback(redrive: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7, card="slow")
    assert "Traceback (most recent call last)" not in redrive("dlq", "view", letter).out
    assert "Traceback (most recent call last)" in redrive("dlq", "view", letter, "--stack").out


def test_past_changes_are_listed(redrive: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7)
    redrive("dlq", "note", letter, "asked the bank")
    redrive("dlq", "assign", letter, "--to", "ada")
    redrive("dlq", "tag", letter, "--add", "bank")
    redrive("dlq", "ignore", letter, "--yes", "--reason", "the customer left")
    told = redrive("dlq", "view", letter).out
    history = [re.sub(r"^ *\S+ \S+Z  ", "", line) for line in told.partition("History\n")[2].splitlines()[:4]]
    assert history == [
        "operator noted: asked the bank",
        "operator assigned it to ada",
        "operator tagged it: +bank",
        "operator ignored it: the customer left",
    ]
    assert f"redrive dlq reopen {letter}" in told
    assert "assigned to ada" in told


def test_a_plan_is_no_replay_so_far(redrive: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7)
    assert redrive("replay", "plan", letter).code == 0
    assert "operator planned a replay\n" in redrive("dlq", "view", letter).out


def test_a_dead_letter_for_programs(anywhere: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7, card="slow")
    story = json.loads(anywhere("dlq", "view", letter, "-o", "json").out)
    assert (story["id"], story["payload"]["number"], story["verdict"]["heals_itself"]) == (letter, 7, False)
    assert [each["number"] for each in story["attempt_list"]] == [1, 2, 3]
    assert story["history"]["replays"] == story["notes"] == []
    assert json.loads(anywhere("dlq", "view", letter, "-o", "ndjson").out) == story
    [row] = csv.DictReader(io.StringIO(anywhere("dlq", "view", letter, "-o", "csv").out))
    assert row["error_type"] == "TimeoutError"


def test_a_letter_whose_effect_may_have_happened(redrive: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7, card="slow", work="refund")
    assert "Careful: the step may have taken effect already" in redrive("dlq", "view", letter).out


def test_stats(anywhere: Command, shop: Shop) -> None:
    """M7."""
    for number in range(3):
        shop.dead_letter(number, card="slow" if number else "declined")
    figures = json.loads(anywhere("dlq", "stats", "-o", "json").out)
    assert (figures["queue_size"], figures["error_categories"]) == (3, {"network": 2, "permanent": 1})
    told = anywhere("dlq", "stats", "-o", "table")
    assert told.out.splitlines()[0] == "3 dead letters not closed"
    assert re.search(r"oldest +(now|\d+ (s|min) ago)", told.out)
    plain = dict(line.split("\t") for line in anywhere("dlq", "stats").out.splitlines())
    assert plain["lifetime_stats.enqueued_total"] == "3"
    none = anywhere("dlq", "stats", "--queue", 'no "such', "-o", "table")
    assert (none.code, none.out.splitlines()[0]) == (0, "0 dead letters not closed")


@pytest.mark.parametrize("verb", ["view", "replay", "resolve", "reopen"])
def test_a_missing_letter(anywhere: Command, verb: str) -> None:
    ended = anywhere("dlq", verb, "nothing like that", *([] if verb == "view" else ["--yes"]))
    assert (ended.code, ended.out) == (3, "")
    assert "no dead letter has the id 'nothing like that': pass the 32 digits of an id" in ended.err


def test_the_beginning_of_an_id(anywhere: Command, shop: Shop) -> None:
    letter = shop.dead_letter()
    assert json.loads(anywhere("dlq", "view", letter[:8], "-o", "json").out)["id"] == letter
    short = anywhere("dlq", "view", letter[:5])
    assert short == (
        3,
        "",
        f"Error: no dead letter has the id '{letter[:5]}': pass the 32 digits of an id, or at least its "
        f"first 6; `redrive dlq list` lists them\n",
    )
    assert anywhere("dlq", "note", letter[:8], "called the bank").code == 0
    assert anywhere("dlq", "resolve", letter[:12], "--yes").err == f"Resolved dead letter {letter}.\n"
    assert anywhere("dlq", "reopen", letter[:12], "--yes").code == 0
    replayed = anywhere("dlq", "replay", letter[:12], "--yes", "--no-wait")
    assert replayed.code == 0, replayed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "--group", "4f0c2d"], "To replay many, run `redrive replay plan --group 4f0c2d`"),
        (["replay", "--query", "is:open step:charge"], "redrive replay plan --query 'is:open step:charge'"),
        (["retry", "0123"], "Unknown command 'retry'; did you mean 'replay'?"),
        (["redrive", "0123"], "did you mean 'replay'?"),
        (["ls"], "did you mean 'list'?"),
        (["delete", "0123"], "did you mean 'archive'?"),
        (["veiw", "0123"], "did you mean 'view'?"),
        (["juggle"], "run `redrive dlq --help` to list the commands"),
        (["group", "show", "4f0c2d"], "did you mean 'view'?"),
        (["groups", "a9f8"], "at least 6 digits"),
        (["groups", "fp:a9f8"], "at least 6 digits"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(
    redrive: Command, shop: Shop, arguments: list[str], message: str
) -> None:
    shop.order()
    ended = redrive("dlq", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert redrive("dlq", "groups", "500").code == 0  # the test searches for this text


def test_a_payload_is_revealed_for_a_reason(anywhere: Command, shop: Shop) -> None:
    letter = shop.dead_letter(7)
    refused = anywhere("dlq", "reveal", letter)
    assert (refused.code, refused.out, "Add --reason" in refused.err) == (2, "", True)
    revealed = anywhere("dlq", "reveal", letter, "--reason", "the bank asked")
    assert revealed.code == 0
    assert json.loads(revealed.out)["password"] == "hunter2-of-the-shop"
    [entry] = json.loads(anywhere("audit", "list", "--action", "dead_letter.revealed", "-o", "json").out)
    assert entry["detail"]["reason"] == "the bank asked"
    assert anywhere("dlq", "reveal", "0" * 32, "--reason", "x").code == 3
