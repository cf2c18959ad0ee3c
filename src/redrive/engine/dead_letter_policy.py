"""Whether a step that failed for good is kept as a dead letter, and how that letter is handled."""

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
from redrive.model.decision import Explanation
from redrive.model.failure import Failure
from redrive.policy.automatic_redrive import Function, RedriveChoice, Redriving, redriving
from redrive.policy.codec import JsonLimits, JsonValue, decode, encode, plain_text, storable
from redrive.policy.redact import MAX_DEPTH, Redactor
from redrive.policy.template import Circumstances, Template, template_for
from redrive.policy.triage import Strategy, enters
from redrive.store.record import NewDeadLetter

_SHALLOW = JsonLimits(depth=MAX_DEPTH - 1)
"""The redactor cuts values that are nested deeper."""


class Handling(NamedTuple):
    redriving: Redriving
    tags: Sequence[str]
    owner: str | None
    template: str | None
    runbook: str | None


@dataclass(slots=True)
class DeadLetterPolicy:
    """`redrive` is for tasks that say nothing themselves; `functions` are the custom policies, by name."""

    redactor: Redactor
    draw: Callable[[], float]
    strategy: Strategy = Strategy.AUTOMATIC
    redrive: RedriveChoice = "never"
    max_redrives: int | None = None
    templates: list[Template] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)

    def refusal(self, work: Work, failure: Failure) -> str:
        """Why no dead letter is written for it; empty when one is. What is replayed for one keeps it."""
        if work.claim.has_letter:
            return ""
        admission = enters(self.strategy, failure.category)
        return "" if admission else f"no dead letter was written: {admission.reason}"

    def handling(self, work: Work, failure: Failure) -> Handling:
        template = self._template(work, failure)
        redriven = self._redriving(work, failure, template)
        if template is None:
            return Handling(redriven, (), None, None, None)
        return Handling(redriven, tuple(template.tags), template.owner, template.name, template.runbook)

    def letter(self, work: Work, evidence: Evidence, why: Explanation, letter_id: str) -> NewDeadLetter:
        """The dead letter of a step, without secrets."""
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
            reason=why.reason,
            explanation=str(why),
            fingerprint=mark.value,
            fingerprint_reason=mark.reason,
            title=mark.title,
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
        if most is None and isinstance(choice, str):  # a policy of somebody's own has a number of its own
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
    """The tags of a run, as JSON, and those of a template."""
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
    """Users choose keys out of anything; what begins with the id of the run was made here."""
    return name if name.startswith(run_id) else redactor.text(name)


def _snapshot_of_text(text: str | None, redactor: Redactor) -> str | None:
    if text is None:
        return None
    try:
        return snapshot(decode(text), redactor)
    except NotStorableError:
        return snapshot(text, redactor)


def snapshot(value: JsonValue, redactor: Redactor) -> str:
    """The value as it may be kept in a dead letter: without its secrets."""
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
    except Exception:  # noqa: BLE001 — a payload that cannot be read may be the very reason
        return work.claim.payload


def _metadata_of(work: Work) -> str | None:
    try:
        return work.opened.metadata
    except NotStorableError:
        return work.claim.metadata
