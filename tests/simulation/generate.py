"""From a seed to a script."""

from __future__ import annotations

from random import Random

from tests.simulation.script import (
    Fault,
    FaultKind,
    Outcome,
    RunPlan,
    Script,
    StepPlan,
    TaskPlan,
    Trouble,
    WorkerPlan,
)

FAULTS_UNTIL = 16.0
"""Seconds of virtual time in which faults happen; afterwards everything must come to its end."""

MAX_LEASE_SECONDS = 9.0

QUEUES = ("default", "mail")
PROCEEDS = "!"
"""The end of order keys whose runs do not wait for the dead letters of others."""
ORDER_KEYS = ("a", "b", f"c{PROCEEDS}")
ORGS = ("acme", "globex", "initech")
BREAKERS = ("bank", "post")

STATEMENTS = (
    "claim",
    "claim",
    "claim",
    "complete",
    "advance",
    "reschedule",
    "stop",
    "park",
    "reclaim",
    "renew",
    "adopt",
    "settled",
    "promote",
    "occupy",
    "save_limit",
    "save_breaker",
    "release",
    "insert_dead_letter",
    "insert_attempt",
    "begin_alone",
    "lock_breaker",
)
"""Where faults bite; half of them bite wherever they can."""

_AT_A_STATEMENT = (
    FaultKind.SLOW,
    FaultKind.LATE_ANSWER,
    FaultKind.REFUSE,
    FaultKind.LOSE_ANSWER,
    FaultKind.LOSE_ANSWER,
    FaultKind.FAIL_INSIDE,
    FaultKind.CRASH_BEFORE,
    FaultKind.CRASH_AFTER,
    FaultKind.CRASH_INSIDE,
    FaultKind.CRASH_INSIDE,
    FaultKind.FREEZE_AFTER,
)
_AT_A_TIME = (FaultKind.CRASH, FaultKind.FREEZE, FaultKind.STOP, FaultKind.STOP, FaultKind.HURRY)


class Generator:
    at_a_statement = _AT_A_STATEMENT

    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def script(self, seed: int) -> Script:
        workers = tuple(self.worker(number) for number in range(self.random.choice((2, 2, 3, 3, 4, 5))))
        tasks = tuple(self.task(number) for number in range(self.random.randint(2, 4)))
        flows = tuple(self.workflow(number, tasks) for number in range(self.random.randint(1, 2)))
        names = {task.name: (task.name,) for task in tasks} | dict(flows)
        runs = [self.run(number, names, tasks) for number in range(self.random.randint(3, 8))]
        if self.chance(0.15):
            runs.append(self.poison(len(runs), tasks))
        faults = self.faults(workers, tasks)
        if self.chance(0.35):
            surprised, duel = self.duel(workers, tasks, len(runs))
            runs, faults = [*runs, *surprised], (*faults, *duel)
        latency = self.random.choice((0.001, 0.01, 0.05))
        limit = 2 if self.chance(0.15) else None
        return Script(seed, workers, tasks, flows, tuple(runs), faults, latency, limit)

    def worker(self, number: int) -> WorkerPlan:
        random = self.random
        queues = QUEUES if number == 0 or self.chance(0.7) else (random.choice(QUEUES),)
        return WorkerPlan(
            name=f"w{number}",
            queues=queues,
            concurrency=random.choice((1, 2, 3, 10)),
            lease=random.choice((4.0, 6.0, MAX_LEASE_SECONDS)),
            poll=random.choice((3.0, 5.0, 7.0)),
            grace=random.choice((0.0, 1.0, 5.0)),
            skew=random.choice((0.0, 0.0, 90.0, -90.0, 7200.0)),
        )

    def task(self, number: int) -> TaskPlan:
        random = self.random
        unsafe = self.chance(0.15)
        return TaskPlan(
            name=f"t{number}",
            queue=random.choice(QUEUES),
            max_attempts=random.choice((1, 2, 3, 4)),
            curve=random.choice(("exponential", "linear", "immediate")),
            jitter=random.choice(("none", "full", "equal", "proportional", "additive", "decorrelated")),
            base=random.choice((0.2, 1.0, 2.0)),
            cap=random.choice((2.0, 8.0)),
            timeout=random.choice((2.0, 20.0)),
            breaker=random.choice(BREAKERS) if self.chance(0.35) else None,
            unsafe=unsafe,
            concurrency=random.choice((1, 2)) if self.chance(0.3) else None,
            by_key=self.chance(0.3),
            ending=random.choice(("bury", "bury", "block", "fail")),
            rate_limit_waits=random.choice((100, 100, 1)),
        )

    def workflow(self, number: int, tasks: tuple[TaskPlan, ...]) -> tuple[str, tuple[str, ...]]:
        count = self.random.randint(2, 4)
        return f"flow{number}", tuple(self.random.choice(tasks).name for _ in range(count))

    def run(self, number: int, names: dict[str, tuple[str, ...]], tasks: tuple[TaskPlan, ...]) -> RunPlan:
        random = self.random
        workflow = random.choice(sorted(names))
        key = self.chance(0.5)
        at = random.choice((0.0, 0.0, random.uniform(0.0, 9.0)))
        return RunPlan(
            number=number,
            workflow=workflow,
            steps=tuple(self.step() for _ in names[workflow]),
            at=round(at, 3),
            org=random.choice(ORGS),
            key=key,
            priority=random.choice((0, 0, 5, -5)),
            delay=random.choice((0.0, 0.0, 0.0, 2.5)),
            repeats=(round(random.uniform(0.0, 12.0), 3),) if key and self.chance(0.4) else (),
            stranger=key and self.chance(0.1),
            cancel_at=round(at + random.uniform(0.0, 8.0), 3) if self.chance(0.2) else None,
        )

    def step(self) -> StepPlan:
        random = self.random
        outcomes: tuple[Outcome, ...] = ()
        if self.chance(0.4):
            kinds = list(Outcome)
            outcomes = tuple(random.choice(kinds) for _ in range(random.randint(1, 3)))
        troubles: tuple[Trouble, ...] = ()
        if self.chance(0.5):
            kinds_of_trouble = (
                Trouble.NONE,
                Trouble.SLEEP,
                Trouble.SLEEP,
                Trouble.LONG,
                Trouble.STUBBORN,
                Trouble.PROGRESS,
                Trouble.DEFER,
            )
            troubles = tuple(random.choice(kinds_of_trouble) for _ in range(random.randint(1, 3)))
        return StepPlan(outcomes, troubles)

    def poison(self, number: int, tasks: tuple[TaskPlan, ...]) -> RunPlan:
        """Kills whoever executes it: always, or some times only."""
        times = self.random.choice((3, 20, 20, 20))
        kinds = (Trouble.KILL, Trouble.KILL_AFTER_EFFECT)
        troubles = tuple(self.random.choice(kinds) for _ in range(times))
        task = min(tasks, key=lambda task: task.unsafe)
        return RunPlan(number, task.name, (StepPlan((), troubles),), org="acme")

    def faults(self, workers: tuple[WorkerPlan, ...], tasks: tuple[TaskPlan, ...]) -> tuple[Fault, ...]:
        random = self.random
        names = [worker.name for worker in workers]
        faults = [self.fault_at_a_statement(names) for _ in range(random.randint(1, 7))]
        faults += [self.fault_at_a_time(names) for _ in range(random.randint(0, 3))]
        if self.chance(0.25):
            faults.append(self.fault(FaultKind.LOSE_ANSWER, random.choice(names), 0.0, "claim"))
        if self.chance(0.3):
            faults.append(self.fault(FaultKind.OUTAGE, "", random.choice((0.5, 5.0, 12.0))))
        for breaker in sorted({task.breaker for task in tasks if task.breaker}):
            for _ in range(random.randint(0, 3)):
                faults.append(self.fault(FaultKind.DEPENDENCY, breaker, random.choice((1.0, 4.0, 8.0))))
            if self.chance(0.2):
                faults.append(self.fault(FaultKind.FORCE_OPEN, breaker, random.choice((3.0, 10.0))))
        if self.chance(0.25):
            faults.append(self.fault(FaultKind.PAUSE_QUEUE, random.choice(QUEUES), random.choice((2.0, 9.0))))
        return tuple(sorted(faults, key=lambda fault: fault.at))

    def duel(
        self, workers: tuple[WorkerPlan, ...], tasks: tuple[TaskPlan, ...], number: int
    ) -> tuple[list[RunPlan], list[Fault]]:
        """One is frozen within a step, until another has taken that over and is not done: both have it."""
        random = self.random
        frozen, *others = random.sample(workers, len(workers))
        at = round(random.uniform(0.5, 5.0), 3)
        freeze = Fault(at, FaultKind.FREEZE, frozen.name, frozen.lease + round(random.uniform(1.0, 8.0), 3))
        kind = random.choice((FaultKind.LATE_ANSWER, FaultKind.LATE_ANSWER, FaultKind.CRASH_AFTER))
        busy = [
            Fault(0.0, kind, other.name, round(random.uniform(2.0, 8.0), 3), "reclaim") for other in others
        ]
        step = StepPlan(self.step().outcomes, (Trouble.SLEEP,))
        runs = [
            RunPlan(number + each, random.choice(tasks).name, (step,), at=round(at - 0.4, 3))
            for each in range(3)
        ]
        return runs, [freeze, *busy]

    def fault_at_a_statement(self, workers: list[str]) -> Fault:
        random = self.random
        kind = random.choice(_AT_A_STATEMENT)
        if self.chance(0.2):
            statement = random.choice((None, "enqueue", "known"))
            return self.fault(kind, "client", random.choice((0.3, 8.0)), statement)
        statement = random.choice(STATEMENTS) if self.chance(0.6) else None
        return self.fault(kind, random.choice(workers), random.choice((0.3, 3.0, 8.0, 15.0)), statement)

    def fault_at_a_time(self, workers: list[str]) -> Fault:
        kind = self.random.choice(_AT_A_TIME)
        return self.fault(kind, self.random.choice(workers), self.random.choice((2.0, 7.0, 15.0, 40.0)))

    def fault(self, kind: FaultKind, target: str, seconds: float, statement: str | None = None) -> Fault:
        at = self.random.random() ** 2 * (FAULTS_UNTIL - 4.0)  # early, while there is much to do
        return Fault(round(at, 3), kind, target, seconds, statement)
