"""The registry: the tasks and workflows of this program, by name. Stored names are looked up only here."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.engine.definition import Definition, StepDefinition
from redrive.engine.payload import Read
from redrive.engine.task import DEFAULT_QUEUE, AnyTask, Task, checked_aliases, checked_name
from redrive.errors import InvalidValueError, NotFoundError
from redrive.policy.bounds import require_list
from redrive.policy.codec import decode_stored
from redrive.words.suggestion import suggest


class Registry:
    """`aliases` are the former names of tasks and workflows, each with its name of today."""

    def __init__(self) -> None:
        self.tasks: dict[str, AnyTask] = {}
        self.workflows: dict[str, Definition] = {}
        self.aliases: dict[str, str] = {}
        self.queues: set[str] = {DEFAULT_QUEUE}

    def add_task(self, task: AnyTask) -> None:
        """Register a task, also as a workflow with one step and the same name."""
        definition = Definition(task.name, (task.step(),))
        self._reject_duplicates("task", task.name, task.aliases)
        self.tasks[task.name] = task
        self._add_workflow(definition, task.aliases)
        self.queues.add(task.queue)

    def add_workflow(
        self, name: str, steps: Sequence[AnyTask | StepDefinition], aliases: Sequence[str] = ()
    ) -> Definition:
        checked_name("the name of a workflow", name)
        require_list("steps", steps, "tasks")
        aliases = checked_aliases(aliases)
        self._reject_duplicates("workflow", name, aliases)
        definition = Definition(name, _distinct(name, [_step_of(name, step) for step in steps]))
        self._add_workflow(definition, aliases)
        return definition

    def task(self, name: str) -> AnyTask | None:
        """Return the task with this name or alias; None if this program has none."""
        return self.tasks.get(self.aliases.get(name, name))

    def workflow(self, name: str) -> Definition:
        current = self.aliases.get(name, name)
        if current not in self.workflows:
            raise NotFoundError(f"there is no workflow or task {name!r}; {suggest(name, self.workflows)}")
        return self.workflows[current]

    def checks_source(self, workflow: str, step_index: int) -> bool:
        """Return whether the task of this step asks its `source` check before a run is retried."""
        definition = self.workflows.get(self.aliases.get(workflow, workflow))
        if definition is None or step_index >= len(definition.steps):
            return False
        task = self.task(definition.steps[step_index].task)
        return task is not None and task.source is not None

    @property
    def runnable(self) -> dict[str, Definition]:
        """The definitions by every name under which runs of them may be stored."""
        former = {alias: self.workflows[name] for alias, name in self.aliases.items()}
        return {**former, **self.workflows}

    def result_reader(self, workflow: str) -> Read:
        """Return the reader of results: it returns the last task's return type; if unknown, JSON."""
        last = self.task(self.workflow(workflow).steps[-1].task)
        return decode_stored if last is None else last.signature.result

    def queue(self, name: str) -> str:
        checked_name("queue", name)
        if name not in self.queues:
            raise NotFoundError(
                f"there is no queue {name!r}; declare it in a task, @app.task(queue={name!r}), or in the "
                f"application, Redrive(..., queues=[{name!r}]); {suggest(name, self.queues)}"
            )
        return name

    def _add_workflow(self, definition: Definition, aliases: Sequence[str]) -> None:
        self.workflows[definition.workflow] = definition
        self.aliases |= dict.fromkeys(aliases, definition.workflow)

    def _reject_duplicates(self, what: str, name: str, aliases: Sequence[str]) -> None:
        """Check that a new task or workflow and its aliases have names that nothing else has."""
        for new in (name, *aliases):
            if new in self.workflows or new in self.aliases:
                kind = "task" if new in self.tasks and what == "task" else "workflow"
                kind = "alias" if new in self.aliases else kind
                raise InvalidValueError(f"the {kind} {new!r} already exists; use another name")
        if name in aliases:
            raise InvalidValueError(f"the {what} {name!r} has its own name as an alias; leave it out")


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
