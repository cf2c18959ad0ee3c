"""Failures reported by other systems: their category, their evidence and their redrive policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.evidence import MAX_MESSAGE_LENGTH, Evidence, clean, evidence_of, evidence_without_error
from redrive.engine.work import Work
from redrive.errors import InvalidValueError
from redrive.model.failure import Category, ErrorClass, Failure
from redrive.policy.automatic_redrive import (
    BY_CATEGORY,
    RedriveChoice,
    Redriving,
    redriving,
    resolve_choice,
    stored_choice,
)
from redrive.policy.classify import DEFAULT_CLASSIFIER, Classifier
from redrive.policy.codec import JsonValue, encode
from redrive.policy.error_text import ReportedError
from redrive.policy.policy_json import policy_to_json
from redrive.policy.presets import REDRIVE_NEVER
from redrive.policy.redact import Redactor
from redrive.policy.retry import RetryPolicy
from redrive.policy.template import Template
from redrive.policy.triage import Triage, redrive_policy

REPORTED = "reported"
_CATEGORIES = {
    Triage.TRANSIENT: Category.PROVIDER_5XX,
    Triage.NETWORK: Category.NETWORK,
    Triage.RESOURCE: Category.RESOURCE,
    Triage.PERMISSION: Category.PERMISSION,
    Triage.VALIDATION: Category.VALIDATION,
    Triage.PERMANENT: Category.UNKNOWN,
}
"""The category of each triage kind; `triage` maps a category back to its kind."""


def category_of(word: str) -> Category:
    """Parse a category, or a triage kind such as transient."""
    lower = str(word).lower()
    if lower in list(Category):
        return Category(lower)
    if lower in list(Triage):
        return _CATEGORIES[Triage(lower)]
    known = ", ".join(dict.fromkeys([*Triage, *Category]))
    raise InvalidValueError(f"category must be one of {known}, got {word!r}")


def evidence_of_report(
    error: BaseException | str,
    category: Category | None,
    *,
    classifier: Classifier | None,
    redactor: Redactor,
    step: str,
    now: float,
) -> Evidence:
    """Build the evidence of a failure in another system, from its exception or its message.

    Without a category, a message is classified like an exception: by the rules of the classifier, by the HTTP
    status that it names, or by its words (see redrive.policy.error_text).
    """
    if isinstance(error, BaseException):
        evidence = evidence_of(error, classifier=classifier, redactor=redactor, step=step, now=now)
        if category is None:
            return evidence
        failure = evidence.failure._replace(
            category=category, error_class=_class_of(category), rule=REPORTED, explicit_class=True
        )
        return evidence._replace(failure=failure)
    text = clean(error, MAX_MESSAGE_LENGTH, redactor) or "no message"
    if category is not None:
        return evidence_without_error(category, _class_of(category), REPORTED, text, step=step)
    found = (classifier or DEFAULT_CLASSIFIER).classify(ReportedError(error), now=now)
    evidence = evidence_without_error(found.category, found.error_class, REPORTED, text, step=step)
    failure = evidence.failure._replace(
        rule=found.rule,
        http_status=found.http_status,
        delivery=found.delivery,
        explicit_class=found.explicit_class,
    )
    return evidence._replace(failure=failure)


def _class_of(category: Category) -> ErrorClass:
    return ErrorClass.FINAL if redrive_policy(category) is REDRIVE_NEVER else ErrorClass.RETRYABLE


def redrive_config(choice: RedriveChoice, max_redrives: int | None) -> dict[str, JsonValue]:
    """Encode the redrive policy of a task as the config of its step, which is stored with the run."""
    policy = policy_to_json(choice) if isinstance(choice, RetryPolicy) else None
    name = choice.name if isinstance(choice, RetryPolicy) else choice
    return {"redrive": name, "policy": policy, "max_redrives": max_redrives}


@dataclass(slots=True)
class ExternalTaskPolicy(DeadLetterPolicy):
    """Redrives each task by its own policy and maximum.

    A task without a policy uses that of the matching template, else that of its category, with `default` in
    place of exponential. A maximum without a policy asks for redrives: if the category has none, the task is
    redriven by `default`.
    """

    default: RedriveChoice = "exponential"

    def _redriving(self, work: Work, failure: Failure, template: Template | None) -> Redriving:
        config = work.step.config
        if not isinstance(config, dict):
            return DeadLetterPolicy._redriving(self, work, failure, template)
        choice = _choice(config, template)
        policy = resolve_choice(choice, failure.category, self.default)
        if choice == BY_CATEGORY and policy == REDRIVE_NEVER and config["max_redrives"]:
            policy = resolve_choice(self.default, failure.category)
        return redriving(
            policy,
            failure.category,
            redrives=work.claim.redrives,
            max_redrives=self._most(config, template),
            effect=work.step.effect,
            may_have_executed=failure.may_have_executed,
            functions=self.functions,
            draw=self.draw(),
        )

    def _most(self, config: Mapping[str, JsonValue], template: Template | None) -> int | None:
        own = config["max_redrives"]
        if own is not None:
            return int(str(own))
        matched = None if template is None else template.max_redrives
        return self.max_redrives if matched is None else matched


def _choice(config: Mapping[str, JsonValue], template: Template | None) -> RedriveChoice:
    name, policy = str(config["redrive"]), config["policy"]
    if name == BY_CATEGORY and template is not None and template.redrive_choice is not None:
        return template.redrive_choice
    return stored_choice(name, None if policy is None else encode(policy))
