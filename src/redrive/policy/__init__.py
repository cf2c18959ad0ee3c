"""Decisions without side effects: classification, retries, breakers, redrives. Time and random numbers are
arguments."""

from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.policy.backoff import Backoff
from redrive.policy.breaker import Breaker
from redrive.policy.breaker_policy import BreakerPolicy, Ramp
from redrive.policy.budget import Budget, BudgetPolicy
from redrive.policy.classify import Classifier, Rule, classify
from redrive.policy.curve import Custom, Exponential, Immediate, Linear, Never, Table
from redrive.policy.jitter import Additive, Decorrelated, Equal, Full, NoJitter, Proportional
from redrive.policy.presets import CALL, GATEWAY, PRESETS, REDRIVE_POLICIES, RUN, STEP
from redrive.policy.public_code import GATEWAY_CODES, PublicCodes
from redrive.policy.retry import Ending, RetryPolicy, decide, next_retry_at
from redrive.policy.triage import Triage, redrive_policy, triage

__all__ = [
    "CALL",
    "GATEWAY",
    "GATEWAY_CODES",
    "PRESETS",
    "REDRIVE_POLICIES",
    "RUN",
    "STEP",
    "Additive",
    "Backoff",
    "Breaker",
    "BreakerPolicy",
    "Budget",
    "BudgetPolicy",
    "Category",
    "Classifier",
    "Custom",
    "Decorrelated",
    "Delivery",
    "Ending",
    "Equal",
    "ErrorClass",
    "Exponential",
    "Failure",
    "Full",
    "Immediate",
    "Linear",
    "Never",
    "NoJitter",
    "Proportional",
    "PublicCodes",
    "Ramp",
    "RetryPolicy",
    "Rule",
    "Table",
    "Triage",
    "classify",
    "decide",
    "next_retry_at",
    "redrive_policy",
    "triage",
]
