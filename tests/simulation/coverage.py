"""What must have happened over many histories, or they prove nothing."""

from __future__ import annotations

from collections import Counter

ENOUGH = 100
ENOUGH_FOR_RARE = 150
"""Histories from which on every fault must have bitten, and what is rare must have happened."""

BITING = (
    "crash before a statement",
    "crash inside a transaction",
    "crash after a commit",
    "freeze",
    "frozen beyond its lease",
    "slow statement",
    "late answer",
    "refused statement",
    "failure inside a transaction",
    "lost acknowledgement",
    "database outage",
    "fenced write rejected",
    "released in order",
    "blocked in order",
    "result too late",
    "reclaim",
    "adopted claim",
    "unknown commit",
    "renewal",
    "executed alone",
    "stop",
    "given back at a drain",
    "repeated start",
    "start given up",
    "conflict",
    "cancelled while executed",
    "cancelled while idle",
    "breaker open",
    "breaker half_open",
    "breaker closed",
    "held by a breaker",
    "held by a limit",
    "queue paused",
    "released: probe",
    "released: lease_lost",
    "released: deferred",
    "released: interrupted",
    "retry: backoff",
    "retry: rate_limit_hint",
    "dead: attempts_spent",
    "dead: final_error",
    "dead: unknown_error",
    "dead: not_repeatable",
    "dead: rate_limit_waits_spent",
    "dead: worker_crashed",
    "chore done again",
    "replay succeeded",
    "replay failed",
    "redrive succeeded",
    "redrive failed",
    "letter exhausted",
    "letter resolved",
    "letter ignored",
    "item succeeded",
    "item failed",
    "item refused",
    "operation done",
    "group resolved",
    "group open",
)

RARE = (
    "replay cancelled",
    "replay refused",
    "reopened",
    "letter archived",
    "item cancelled",
    "operation paused",
    "operation resumed",
    "operation stopped",
    "operation cancelled",
    "operation survived a crash",
    "waited for another letter",
)


def missing(bitten: Counter[str], histories: int) -> list[str]:
    expected = (BITING if histories >= ENOUGH else ()) + (RARE if histories >= ENOUGH_FOR_RARE else ())
    return [each for each in expected if not bitten[each]]
