"""Failed tasks of other systems: taken in as work that has just failed here (M2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from redrive.clock import Clock
from redrive.engine import outcome
from redrive.engine.dead_letter_policy import DeadLetterPolicy
from redrive.engine.definition import Definition
from redrive.engine.encryption import NO_ENCRYPTION, Encryption
from redrive.engine.event_bus import EventBus
from redrive.engine.event_reporter import group_changed
from redrive.engine.evidence import MAX_MESSAGE_LENGTH, Evidence, clean, evidence_of, evidence_without_error
from redrive.engine.ids import Ids
from redrive.engine.work import Work
from redrive.errors import InvalidValueError, NotFoundError, QueueFullError
from redrive.model.attempt import AttemptOutcome
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF
from redrive.model.dead_letter import DeadLetterState
from redrive.model.decision import Bury, Explanation, Reason
from redrive.model.event import StepDied
from redrive.model.failed_task import FailedTaskRow, NewFailedTask
from redrive.model.failure import Category, ErrorClass, Failure
from redrive.model.run import RunState
from redrive.policy.classify import Classifier
from redrive.policy.codec import JsonValue, encode
from redrive.policy.presets import REDRIVE_NEVER
from redrive.policy.redact import Redactor
from redrive.policy.redriving import BY_CATEGORY, Redrive, Redriving, choice_of, chosen, redriving
from redrive.policy.retry import RetryPolicy
from redrive.policy.stored import policy_to_json
from redrive.policy.template import Template
from redrive.policy.triage import Triage, redrive_policy
from redrive.store.database import Session
from redrive.store.external_failures import ExternalFailures
from redrive.store.record import Record, Recorded
from redrive.store.runs import DefinitionRow
from redrive.store.store import Store

REPORTED = "reported"
_CATEGORIES = {
    Triage.TRANSIENT: Category.PROVIDER_5XX,
    Triage.NETWORK: Category.NETWORK,
    Triage.RESOURCE: Category.RESOURCE,
    Triage.PERMISSION: Category.PERMISSION,
    Triage.VALIDATION: Category.VALIDATION,
    Triage.PERMANENT: Category.UNKNOWN,
}
"""What the coarse kinds stand for among the categories; `triage` leads back to them."""


def category_of(word: str) -> Category:
    """A category, or one of the coarse kinds, such as transient."""
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
    """What somebody else has seen: an exception, or what was said about it."""
    if isinstance(error, BaseException):
        evidence = evidence_of(error, classifier=classifier, redactor=redactor, step=step, now=now)
        return evidence if category is None else evidence._replace(failure=_said(evidence.failure, category))
    kind = Category.UNKNOWN if category is None else category
    text = clean(error, MAX_MESSAGE_LENGTH, redactor) or "no message"
    return evidence_without_error(kind, _class_of(kind), REPORTED, text, step=step)


def _said(failure: Failure, category: Category) -> Failure:
    return failure._replace(category=category, error_class=_class_of(category), rule=REPORTED, said=True)


def _class_of(category: Category) -> ErrorClass:
    return ErrorClass.FINAL if redrive_policy(category) is REDRIVE_NEVER else ErrorClass.RETRYABLE


def redrive_config(choice: Redrive, max_redrives: int | None) -> dict[str, JsonValue]:
    """The choice of one task as the config of its step, so that its run keeps it."""
    policy = policy_to_json(choice) if isinstance(choice, RetryPolicy) else None
    name = choice.name if isinstance(choice, RetryPolicy) else choice
    return {"redrive": name, "policy": policy, "max_redrives": max_redrives}


@dataclass(slots=True)
class ExternalTaskPolicy(DeadLetterPolicy):
    """Every task of the queue may have a policy and a number of its own. What it leaves open, a template may
    say; then its category does, with `default` in the place of exponential."""

    default: Redrive = "exponential"

    def _redriving(self, work: Work, failure: Failure, template: Template | None) -> Redriving:
        config = work.step.config
        if not isinstance(config, dict):
            return DeadLetterPolicy._redriving(self, work, failure, template)
        return redriving(
            chosen(_choice(config, template), failure.category, self.default),
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
        said = None if template is None else template.max_redrives
        return self.max_redrives if said is None else said


def _choice(config: Mapping[str, JsonValue], template: Template | None) -> Redrive:
    name, policy = str(config["redrive"]), config["policy"]
    if name == BY_CATEGORY and template is not None and template.redrive is not None:
        return template.redrive
    return choice_of(name, None if policy is None else encode(policy))


class Report(NamedTuple):
    """A failed task as it is taken in; `after` are tasks that must have succeeded before, with their keys."""

    new: NewFailedTask
    definition: Definition
    evidence: Evidence
    after: Mapping[str, str]


class ExternalTasks:
    """Stores failed tasks of other systems as dead letters, and finds them."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        event_bus: EventBus,
        letter_policy: DeadLetterPolicy,
        encryption: Encryption = NO_ENCRYPTION,
    ) -> None:
        self._store = store
        self._failures = ExternalFailures(store.database, store.limits)
        self._clock = clock
        self._ids = ids
        self._event_bus = event_bus
        self._letter_policy = letter_policy
        self._encryption = encryption

    async def keep(self, report: Report, max_size: int) -> None:
        """The same task again, while its letter is live, is the same letter with the newer evidence."""
        definition = report.definition
        row = DefinitionRow(definition.digest, definition.workflow, definition.body)
        await self._store.runs.define([row])
        try:
            await self._keep(report, max_size)
        except QueueFullError:  # what was counted with it would be rolled back
            await self._store.letter_writer.count_refused(report.new.org, report.new.queue)
            raise

    async def find(self, org: str, key: str) -> FailedTaskRow | None:
        """The task with this key, by its newest dead letter."""
        return await self._failures.find(org, key)

    async def page(
        self, org: str, queue: str, state: DeadLetterState | None, most: int
    ) -> list[FailedTaskRow]:
        """Up to `most` tasks of a queue, the oldest first."""
        return await self._failures.page(org, queue, state, most)

    async def _keep(self, report: Report, max_size: int) -> None:
        async with self._store.database.transaction() as session:
            taken = await self._failures.take(session, report.new, max_size)
            letter_id = taken.letter_id or self._ids.new()
            linked = await self._link(session, letter_id, report)
            if taken.claim is None:
                await self._store.audit.append(session, linked)
                return
            work = Work(taken.claim, report.definition, None, self._encryption)
            record = self._record(work, letter_id, report.evidence)
            recorded = (await self._store.records.record_within(session, [record]))[work.claim.id]
            await self._store.audit.append(session, linked)
        self._emit(work, recorded, report.evidence)

    def _record(self, work: Work, letter_id: str, evidence: Evidence) -> Record:
        return outcome.decided(
            work,
            evidence,
            Bury(_why(work, evidence.failure)),
            AttemptOutcome.FAILED,
            now=self._clock.now(),
            letter_id=letter_id,
            letter_policy=self._letter_policy,
        )

    async def _link(self, session: Session, letter_id: str, report: Report) -> list[NewEntry]:
        """Say which letters must be resolved before this one is redriven; what the audit says of it."""
        others: list[str] = []
        org, letters = report.new.org, self._store.dead_letters
        for task_id, key in report.after.items():
            other = await self._failures.letter_of(session, org, key)
            if other is None:
                raise NotFoundError(f"there is no task {task_id!r} in the queue that it could wait for")
            if other == letter_id or await letters.depends(session, other, letter_id, org):
                raise InvalidValueError(f"it cannot wait for {task_id!r}, which waits for it")
            await letters.link(session, letter_id, other, org)
            others.append(other)
        detail = {"depends_on": others}
        return [NewEntry(org, SELF, Action.DEAD_LETTER_LINKED, (letter_id,), detail)] if others else []

    def _emit(self, work: Work, recorded: Recorded, evidence: Evidence) -> None:
        if recorded.group_change is not None:
            self._event_bus.emit(group_changed(recorded.group_change))
        failure, letter_id = evidence.failure, recorded.letter_id
        why, where = _why(work, failure), evidence.where
        self._event_bus.emit(
            StepDied(work.ref, 0.0, failure, why, RunState.DLQ_PENDING, letter_id, where),
        )


def _why(work: Work, failure: Failure) -> Explanation:
    attempts = work.policy.max_attempts
    return Explanation(Reason.REPORTED, failure.rule, str(failure.category), 1, attempts)
