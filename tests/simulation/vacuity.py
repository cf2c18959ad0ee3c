"""What must have happened over many histories, or they prove nothing."""

from __future__ import annotations

from collections import Counter

ENOUGH = 100
"""Histories from which on every fault must have bitten."""

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
)


def missing(bitten: Counter[str]) -> list[str]:
    return [each for each in BITING if not bitten[each]]
