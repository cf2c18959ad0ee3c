"""The registry: the tasks and workflows of this program, by name. Stored names are looked up here only."""

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
        """A task is also a workflow of one step, under the same name."""
        self._refuse_second("task", task.name, self.tasks)
        definition = Definition(task.name, (task.step(),))
        self._refuse_second("workflow", task.name, self.workflows)
        self.tasks[task.name] = task
        self.workflows[task.name] = definition
        self.queues.add(task.queue)

    def add_workflow(self, name: str, steps: Sequence[AnyTask | StepDefinition]) -> Definition:
        checked_name("the name of a workflow", name)
        self._refuse_second("workflow", name, self.workflows)
        defined = [_step_of(name, step) for step in steps]
        definition = self.workflows[name] = Definition(name, _distinct(name, defined))
        return definition

    def workflow(self, name: str) -> Definition:
        if name not in self.workflows:
            raise NotFoundError(f"there is no workflow or task {name!r}; {suggest(name, self.workflows)}")
        return self.workflows[name]

    def result_reader(self, workflow: str) -> Read:
        """Return what reads a result in the type that the last task returns; as JSON if that is unknown."""
        last = self.tasks.get(self.workflow(workflow).steps[-1].task)
        return decode_stored if last is None else last.signature.result

    def queue(self, name: str) -> str:
        checked_name("queue", name)
        if name not in self.queues:
            raise NotFoundError(
                f"there is no queue {name!r}: a queue is known when a task names it, or the application, "
                f"Redrive(..., queues=[{name!r}]); {suggest(name, self.queues)}"
            )
        return name

    @staticmethod
    def _refuse_second(what: str, name: str, known: dict[str, AnyTask] | dict[str, Definition]) -> None:
        if name in known:
            raise InvalidValueError(f"there is a {what} {name!r} already; give this one another name")


def _step_of(workflow: str, step: object) -> StepDefinition:
    if isinstance(step, Task):
        return step.step()
    if not isinstance(step, StepDefinition):
        raise InvalidValueError(
            f"a step of the workflow {workflow!r} is {step!r}, which is no task; is @app.task missing?"
        )
    return step


def _distinct(workflow: str, steps: Sequence[StepDefinition]) -> tuple[StepDefinition, ...]:
    """The steps of a workflow: at least one, and no two of the same name."""
    if not steps:
        raise InvalidValueError(f"the workflow {workflow!r} has no steps; a workflow has at least one")
    names = [step.name for step in steps]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValueError(
                f"the workflow {workflow!r} has two steps named {name!r}; "
                f"give one of them another name with task.step(name=...)"
            )
    return tuple(steps)
