"""Decides whether a permanently failed step becomes a dead letter, and how that letter is handled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from redrive.engine.context import step_key
from redrive.engine.evidence import Evidence
from redrive.engine.work import Work
from redrive.errors import NotStorableError
from redrive.model.decision import Reason
from redrive.model.fact import Fact
from redrive.model.failure import Failure
from redrive.policy.automatic_redrive import Function, RedriveChoice, Redriving, redriving
from redrive.policy.codec import JsonLimits, JsonValue, decode, encode, plain_text, storable
from redrive.policy.redact import MAX_DEPTH, Redactor
from redrive.policy.template import Circumstances, Template, template_for
from redrive.policy.triage import Strategy, rejection
from redrive.store.record import NewDeadLetter

_SHALLOW = JsonLimits(depth=MAX_DEPTH - 1)
"""The redactor truncates values that are nested deeper."""


StrategyOf = Callable[[str, str], Strategy]


def always_automatic(org: str, queue: str) -> Strategy:
    return Strategy.AUTOMATIC


class Handling(NamedTuple):
    redriving: Redriving
    tags: Sequence[str]
    owner: str | None
    template: str | None
    runbook: str | None


@dataclass(slots=True)
class DeadLetterPolicy:
    """
    strategy_of  returns the strategy of an org and a queue
    redrive      applies if neither task nor template has a choice
    functions    the custom redrive policies
    """

    redactor: Redactor
    draw: Callable[[], float]
    strategy_of: StrategyOf = always_automatic
    redrive: RedriveChoice = "never"
    max_redrives: int | None = None
    templates: list[Template] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)

    def rejection(self, work: Work, failure: Failure) -> Fact | None:
        """Return why no dead letter is written, or None. A replayed dead letter is never rejected."""
        if work.claim.has_letter:
            return None
        return rejection(self.strategy_of(work.claim.org, work.claim.queue), failure.category)

    def handling(self, work: Work, failure: Failure) -> Handling:
        template = self._template(work, failure)
        redriven = self._redriving(work, failure, template)
        if template is None:
            return Handling(redriven, (), None, None, None)
        return Handling(redriven, tuple(template.tags), template.owner, template.name, template.runbook)

    def letter(self, work: Work, evidence: Evidence, reason: Reason, letter_id: str) -> NewDeadLetter:
        """Build the redacted dead letter of a failed step."""
        failure, mark, redactor = evidence.failure, evidence.fingerprint, self.redactor
        handling = self.handling(work, failure)
        redriving = handling.redriving
        config, policy = snapshot(work.step.config, redactor), work.policy_text
        return NewDeadLetter(
            id=letter_id,
            org=work.claim.org,
            run_id=work.claim.id,
            workflow=work.claim.workflow,
            step=work.step.name,
            task=work.step.task,
            category=failure.category,
            error_class=failure.error_class,
            error_type=failure.error_type,
            message=failure.message,
            stack=evidence.stack,
            http_status=failure.http_status,
            public_code=failure.public_code,
            public_message=failure.public_message,
            reason=reason,
            fingerprint=mark.value,
            fingerprint_reason=mark.reason.encode(),
            title=evidence.title,
            pattern=mark.pattern,
            payload=snapshot(_payload_of(work), redactor),
            config=config,
            policy=policy,
            settings=_digest_of(config, policy),
            idempotency_key=_redacted_name(step_key(work.claim), work.claim.id, redactor),
            correlation_id=_redacted_name(work.claim.correlation_id, work.claim.id, redactor),
            tags=_snapshot_of_text(with_tags(work.claim.tags, handling.tags), redactor),
            metadata=_snapshot_of_text(_metadata_of(work), redactor),
            effect=work.step.effect,
            may_have_executed=failure.may_have_executed,
            breaker=work.step.breaker,
            code_version=work.claim.code_version,
            assignee=handling.owner,
            template=handling.template,
            runbook=handling.runbook,
            state=redriving.state,
            redrive=redriving.name,
            redrive_policy=redriving.policy,
            redrives=redriving.redrives,
            max_redrives=redriving.max_redrives,
            redrive_delay=redriving.delay,
        )

    def _template(self, work: Work, failure: Failure) -> Template | None:
        if not self.templates:
            return None
        return template_for(self.templates, _circumstances(work, failure))

    def _redriving(self, work: Work, failure: Failure, template: Template | None) -> Redriving:
        choice, most = self.redrive, None
        for declared in (work.task, template):
            if declared is not None and declared.redrive_choice is not None:
                choice = declared.redrive_choice
            if declared is not None and declared.max_redrives is not None:
                most = declared.max_redrives
        if most is None and isinstance(choice, str):  # a RetryPolicy has its own maximum
            most = self.max_redrives
        return redriving(
            choice,
            failure.category,
            redrives=work.claim.redrives,
            max_redrives=most,
            effect=work.step.effect,
            may_have_executed=failure.may_have_executed,
            functions=self.functions,
            draw=self.draw(),
        )


@lru_cache(maxsize=1_024)
def _digest_of(config: str, policy: str) -> str:
    return sha256(f"{config}\n{policy}".encode()).hexdigest()[:32]


def with_tags(tags: str | None, more: Sequence[str]) -> str | None:
    """Return the tags of a run, as JSON, with the tags of a template added."""
    if not more:
        return tags
    try:
        known = [] if tags is None else decode(tags)
    except NotStorableError:
        known = []
    own = known if isinstance(known, list) else []
    return encode([*own, *(tag for tag in more if tag not in own)])


def _circumstances(work: Work, failure: Failure) -> Circumstances:
    return Circumstances(
        failure.category,
        work.step.task,
        work.claim.workflow,
        work.claim.queue,
        failure.error_type,
        failure.http_status,
        failure.message,
    )


def _redacted_name(name: str, run_id: str, redactor: Redactor) -> str:
    """Redact a name chosen by the application. Names that start with the run id were generated here."""
    return name if name.startswith(run_id) else redactor.text(name)


def _snapshot_of_text(text: str | None, redactor: Redactor) -> str | None:
    if text is None:
        return None
    try:
        return snapshot(decode(text), redactor)
    except NotStorableError:
        return snapshot(text, redactor)


def snapshot(value: JsonValue, redactor: Redactor) -> str:
    """Encode a value for a dead letter, with its secrets redacted."""
    text = plain_text(value, limits=_SHALLOW)
    if text is not None and redactor.is_clean_json(text):
        return text
    redacted = redactor.value(value)
    try:
        return encode(redacted)
    except NotStorableError:
        return encode(storable(redacted))


def _payload_of(work: Work) -> JsonValue:
    try:
        return work.payload
    except Exception:  # noqa: BLE001 — the unreadable payload may be the cause of the failure
        return work.claim.payload


def _metadata_of(work: Work) -> str | None:
    try:
        return work.opened.metadata
    except NotStorableError:
        return work.claim.metadata
