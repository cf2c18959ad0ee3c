"""Generates operations on dead letters from a seed: redrives, steps that fail again, an operator."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.simulation.generate import FAULTS_UNTIL, Generator
from tests.simulation.script import (
    Bulk,
    Chore,
    ChoreKind,
    Fault,
    FaultKind,
    Outcome,
    RunPlan,
    Script,
    StepPlan,
    TaskPlan,
)

STATEMENTS = (
    "pick",
    "pick",
    "restart",
    "mark_replaying",
    "tally",
    "tally",
    "breakers",
    "due",
    "lock_due",
    "lock_running",
    "settle",
    "resolve",
    "occur",
    "insert_entry",
    "save_head",
    "save",
)
AT_THE_DESK = (
    None,
    "restart",
    "mark_replaying",
    "insert",
    "insert_entry",
    "close",
    "save",
    "lock",
    "cancel_idle",
    "get",
    "get",
)

_OFTEN = (
    ChoreKind.REPLAY,
    ChoreKind.REPLAY,
    ChoreKind.REPLAY_ALONE,
    ChoreKind.REPLAY_BACK,
    ChoreKind.REPLAY_OTHERWISE,
    ChoreKind.RETRY_RUN,
    ChoreKind.RETRY_RUN,
)
_SELDOM = (
    ChoreKind.RESOLVE,
    ChoreKind.IGNORE,
    ChoreKind.ARCHIVE,
    ChoreKind.REOPEN,
    ChoreKind.REOPEN,
    ChoreKind.LINK,
    ChoreKind.LINK,
    ChoreKind.LINK,
    ChoreKind.CANCEL_RUN,
    ChoreKind.CANCEL_RUN,
    ChoreKind.ACKNOWLEDGE_GROUP,
    ChoreKind.RESOLVE_GROUP,
    ChoreKind.RESOLVE_GROUP_WITH_LETTERS,
    ChoreKind.IGNORE_GROUP,
)

_RIVALS = (
    ChoreKind.REPLAY,
    ChoreKind.REPLAY_BACK,
    ChoreKind.RETRY_RUN,
    ChoreKind.RESOLVE,
    ChoreKind.IGNORE,
    ChoreKind.PLAN,
)


def with_chores(script: Script, seed: int) -> Script:
    """Add an operator to some scripts; the end of the others stays predictable."""
    return _Chores(Random(f"chores {seed}")).added(script)


class _Chores(Generator):
    def added(self, script: Script) -> Script:
        first, *others = script.workers
        script = replace(
            script,
            workers=(first, *(replace(worker, redrives=self.chance(0.3)) for worker in others)),
            tasks=tuple(self.redriven(task) for task in script.tasks),
            runs=tuple(self.failing_again(run) for run in script.runs),
        )
        if self.chance(0.4):
            return replace(script, sweeps=self.random.choice((0, 0, 1, 2)))
        with_bulk = self.chance(0.6)
        if with_bulk:
            script = self.with_flock(script)
        chores = [self.chore(script) for _ in range(self.random.randint(2, 6))]
        chores += [self.rivalling(chore) for chore in chores if chore.kind in _OFTEN and self.chance(0.5)]
        faults = (*script.faults, *(self.fault_in_triage(script) for _ in range(self.random.randint(0, 3))))
        if with_bulk:
            chores += self.bulk(script)
            faults += tuple(self.deaths_of_drivers(script))
        faults += tuple(self.forced_closed(script))
        chores.sort(key=lambda chore: chore.at)
        return replace(script, chores=tuple(chores), faults=faults, sweeps=self.random.choice((0, 0, 0, 1)))

    def redriven(self, task: TaskPlan) -> TaskPlan:
        if not self.chance(0.3):
            return task
        kind = self.random.choice(("immediate", "exponential"))
        return replace(task, redrive=kind, max_redrives=self.random.choice((1, 2, 3)))

    def failing_again(self, run: RunPlan) -> RunPlan:
        lasting = (self.random.choice((0, 0, 1, 1, 2, 9)) if step.outcomes else 0 for step in run.steps)
        steps = tuple(replace(step, lasting=each) for step, each in zip(run.steps, lasting, strict=True))
        return replace(run, steps=steps)

    def with_flock(self, script: Script) -> Script:
        """Add runs that fail identically at the same time, as work for a bulk replay."""
        random = self.random
        task = min(random.sample(script.tasks, len(script.tasks)), key=lambda task: task.unsafe)
        org = random.choice(script.runs).org
        outcome = random.choice((Outcome.FINAL, Outcome.UNKNOWN))
        number = 1 + max(run.number for run in script.runs)
        flock = [
            RunPlan(
                number + each,
                task.name,
                (StepPlan((outcome,), (), random.choice((0, 0, 0, 0, 1, 9))),),
                at=round(random.uniform(0.0, 1.0), 3),
                org=org,
            )
            for each in range(random.randint(3, 6))
        ]
        return replace(script, runs=(*script.runs, *flock))

    def chore(self, script: Script) -> Chore:
        kind = self.random.choice(_OFTEN if self.chance(0.55) else _SELDOM)
        rash = self.chance(0.7 if kind is ChoreKind.RETRY_RUN else 0.15)
        return self.done(script, kind, self.random.uniform(1.0, 20.0), rash=rash)

    def rivalling(self, chore: Chore) -> Chore:
        """Return a second chore for the same dead letter at the same moment."""
        later = self.random.choice((0.0, 0.0, 0.01, 0.03))
        return replace(chore, at=round(chore.at + later, 3), kind=self.random.choice(_RIVALS))

    def bulk(self, script: Script) -> list[Chore]:
        """Generate a bulk replay, and the chores that act on it."""
        random = self.random
        at, org = random.uniform(2.0, 12.0), script.runs[-1].org
        how = Bulk(
            canary=random.choice((0, 1, 1, 2)),
            rate=random.choice((None, 0.5, 1.0, 3.0)),
            failure_rate=random.choice((0.0, 0.5, 1.0)),
            stop_on_breaker=self.chance(0.7),
            alone=self.chance(0.2),
            exclude_unsafe=self.chance(0.3),
            waits=self.chance(0.25),
        )
        chores = [replace(self.done(script, ChoreKind.PLAN, at), org=org, bulk=how)]
        kinds = (ChoreKind.PAUSE, ChoreKind.PAUSE, ChoreKind.RESUME, ChoreKind.CANCEL, ChoreKind.START)
        if how.waits:
            chores.append(
                self.done(script, ChoreKind.START, at + random.uniform(0.5, 4.0), rash=self.chance(0.7))
            )
        times = random.choice((0, 1, 1, 2, 2))
        chores += [
            self.done(script, random.choice(kinds), at + random.expovariate(0.8), rash=self.chance(0.3))
            for _ in range(times)
        ]
        return [replace(chore, org=org) for chore in chores]

    def done(self, script: Script, kind: ChoreKind, at: float, *, rash: bool = False) -> Chore:
        org = self.random.choice(script.runs).org
        return Chore(round(at, 3), kind, org, round(self.random.random(), 3), rash)

    def fault_in_triage(self, script: Script) -> Fault:
        random = self.random
        kind, at = random.choice(self.at_a_statement), round(random.uniform(1.0, FAULTS_UNTIL - 4.0), 3)
        seconds = random.choice((0.3, 3.0, 8.0))
        if self.chance(0.3):
            return Fault(at, kind, "clerk", seconds, random.choice(AT_THE_DESK))
        return Fault(at, kind, random.choice(script.workers).name, seconds, random.choice(STATEMENTS))

    def deaths_of_drivers(self, script: Script) -> list[Fault]:
        """Let each process that starts items of a bulk replay crash once while it does so."""
        if not self.chance(0.35):
            return []
        kind = self.random.choice((FaultKind.CRASH_INSIDE, FaultKind.CRASH_AFTER, FaultKind.LOSE_ANSWER))
        return [Fault(1.0, kind, worker.name, 0.0, "pick") for worker in script.workers]

    def forced_closed(self, script: Script) -> list[Fault]:
        names = sorted({task.breaker for task in script.tasks if task.breaker})
        if not names or not self.chance(0.15):
            return []
        at = round(self.random.uniform(2.0, FAULTS_UNTIL - 4.0), 3)
        return [Fault(at, FaultKind.FORCE_CLOSED, self.random.choice(names), self.random.choice((2.0, 6.0)))]
