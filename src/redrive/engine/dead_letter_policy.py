"""Whether a step that failed for good is kept as a dead letter, and how that letter is handled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from redrive.engine.work import Work
from redrive.errors import NotStorableError
from redrive.model.failure import Failure
from redrive.policy.codec import decode, encode
from redrive.policy.redact import Redactor
from redrive.policy.redriving import Function, RedriveChoice, Redriving, redriving
from redrive.policy.template import Circumstances, Template, template_for
from redrive.policy.triage import Strategy, enters


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

    def _template(self, work: Work, failure: Failure) -> Template | None:
        if not self.templates:
            return None
        return template_for(self.templates, _circumstances(work, failure))

    def _redriving(self, work: Work, failure: Failure, template: Template | None) -> Redriving:
        choice, most = self.redrive, None
        for said in (work.task, template):
            if said is not None and said.redrive is not None:
                choice = said.redrive
            if said is not None and said.max_redrives is not None:
                most = said.max_redrives
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
