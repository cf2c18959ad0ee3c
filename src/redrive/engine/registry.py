"""The registry: the tasks and workflows of this program, by name. Stored names are looked up only here."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.engine.definition import Definition, StepDefinition
from redrive.engine.payload import Read
from redrive.engine.task import DEFAULT_QUEUE, AnyTask, Task, checked_name
from redrive.errors import InvalidValueError, NotFoundError
from redrive.policy.codec import decode_stored
from redrive.words.suggestion import suggest


class Registry:
    def __init__(self) -> None:
        self.tasks: dict[str, AnyTask] = {}
        self.workflows: dict[str, Definition] = {}
        self.queues: set[str] = {DEFAULT_QUEUE}

    def add_task(self, task: AnyTask) -> None:
        """Register a task, also as a workflow with one step and the same name."""
        self._reject_duplicate("task", task.name, self.tasks)
        definition = Definition(task.name, (task.step(),))
        self._reject_duplicate("workflow", task.name, self.workflows)
        self.tasks[task.name] = task
        self.workflows[task.name] = definition
        self.queues.add(task.queue)

    def add_workflow(self, name: str, steps: Sequence[AnyTask | StepDefinition]) -> Definition:
        checked_name("the name of a workflow", name)
        self._reject_duplicate("workflow", name, self.workflows)
        defined = [_step_of(name, step) for step in steps]
        definition = self.workflows[name] = Definition(name, _distinct(name, defined))
        return definition

    def workflow(self, name: str) -> Definition:
        if name not in self.workflows:
            raise NotFoundError(f"there is no workflow or task {name!r}; {suggest(name, self.workflows)}")
        return self.workflows[name]

    def result_reader(self, workflow: str) -> Read:
        """Return the reader of results: it returns the last task's return type; if unknown, JSON."""
        last = self.tasks.get(self.workflow(workflow).steps[-1].task)
        return decode_stored if last is None else last.signature.result

    def queue(self, name: str) -> str:
        checked_name("queue", name)
        if name not in self.queues:
            raise NotFoundError(
                f"there is no queue {name!r}; declare it in a task, @app.task(queue={name!r}), or in the "
                f"application, Redrive(..., queues=[{name!r}]); {suggest(name, self.queues)}"
            )
        return name

    @staticmethod
    def _reject_duplicate(what: str, name: str, known: dict[str, AnyTask] | dict[str, Definition]) -> None:
        if name in known:
            raise InvalidValueError(f"the {what} {name!r} already exists; use another name")


def _step_of(workflow: str, step: object) -> StepDefinition:
    if isinstance(step, Task):
        return step.step()
    if not isinstance(step, StepDefinition):
        raise InvalidValueError(
            f"a step of the workflow {workflow!r} is {step!r}, which is not a task; is @app.task missing?"
        )
    return step


def _distinct(workflow: str, steps: Sequence[StepDefinition]) -> tuple[StepDefinition, ...]:
    """Check that a workflow has at least one step and no two steps with the same name."""
    if not steps:
        raise InvalidValueError(f"the workflow {workflow!r} has no steps; add at least one")
    names = [step.name for step in steps]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValueError(
                f"the workflow {workflow!r} has two steps named {name!r}; "
                f"rename one of them with task.step(name=...)"
            )
    return tuple(steps)
