"""A bulk replay of the API: read, counted, and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from redrive.cli.client import Client, segment
from redrive.cli.output import Row
from redrive.cli.preconditions import explain_ids
from redrive.policy.rollout import RolloutOptions
from redrive.words.number import plural
from redrive.words.replay import MODES, blocking_operation, describe_rollout, selection_of

PATH = "/api/v1/operations"
OVER = ("DONE", "CANCELLED", "STOPPED")
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
NOT_REPLAYED = ("REFUSED", "SKIPPED")


def read_operation(client: Client, operation_id: str, part: str = "") -> Row:
    with explain_ids("replay", [operation_id], "redrive replay list"):
        operation: Row = client.get(f"{PATH}/{segment(operation_id)}{part}")
    return operation


def read_report(client: Client, operation_id: str) -> Row:
    return read_operation(client, operation_id, "/report")


def count_ended(report: Row) -> int:
    return sum(report["items"].get(state, 0) for state in ENDED)


def count_replayed(report: Row) -> int:
    """Items that run, have run or will run: all but those that were refused or left out."""
    return sum(number for state, number in report["items"].items() if state not in NOT_REPLAYED)


def selection_text(operation: Row) -> str:
    selection = selection_of(operation["selection"])
    return f"the group {selection.text}" if selection.kind == "group" else selection.text


def mode_text(mode: str) -> str:
    title, _ = MODES[mode]
    return title[:1].lower() + title[1:]


def rollout_sentences(operation: Row) -> Iterator[str]:
    """How it starts, how fast it is, and when it stops itself."""
    options = operation["options"]
    rollout = RolloutOptions(**{field.name: options[field.name] for field in fields(RolloutOptions)})
    return describe_rollout(rollout, operation["plan"]["will_run"])


def policy_text(operation: Row) -> str | None:
    """The retry policy of this replay only, if it has one."""
    policy = operation["override_retry_policy"]
    if not policy:
        return None
    return f"at most {plural(policy['max_attempts'], 'attempt')}" if "max_attempts" in policy else str(policy)


def refusal_text(why: str) -> str:
    """Why an item is not replayed, and what to do about it if that is known."""
    other = blocking_operation(why)
    return f"{why}: resume or cancel that one first (redrive replay view {other})" if other else why
