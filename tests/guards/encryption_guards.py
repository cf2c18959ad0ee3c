"""Guards of secrets at rest: every place that encrypts a value before storing it (M11, I9)."""

from __future__ import annotations

from tests.guards.guard import Guard
from tests.guards.patch import Code, Sql

PAYLOADS = "tests/store/test_payloads.py::"
CANARY = f"{PAYLOADS}test_with_a_key_no_canary_reaches_the_disk"
ON_DISK = (f"{CANARY}[sqlite]", f"{CANARY}[postgres]")
ROTATION = "tests/guards/test_encryption.py::test_rotation_keeps_values_replaced_in_the_meantime"
AS_READ = r"run\.{column} = (?:changed\.{column}\b|\?\d+)(?! AND)"
IN_A_FILE = (
    "tests/test_dead_letter_queue.py::TestTenantsAndSecrets::test_encrypted_values_are_nowhere_in_the_file"
)

_POINTS = {
    "input": ("redrive.engine.enqueue:Enqueuer._new_run", "self._encryption.encrypt(text)", "text", ON_DISK),
    "metadata": (
        "redrive.engine.enqueue:Enqueuer._metadata",
        "self._encryption.encrypt(json_and_text(dict(metadata), limits=self._limits)[1])",
        "json_and_text(dict(metadata), limits=self._limits)[1]",
        ON_DISK,
    ),
    "output": (
        "redrive.engine.executor:Executor._advance",
        "self.encryption.encrypt(attempt.result)",
        "attempt.result",
        ON_DISK,
    ),
    "result": (
        "redrive.engine.executor:Executor._complete",
        "self.encryption.encrypt(attempt.result)",
        "attempt.result",
        ON_DISK,
    ),
    "result within a transaction": (
        "redrive.engine.executor:Executor._complete_within",
        "self.encryption.encrypt(json_and_text(result, limits=self.limits)[1])",
        "json_and_text(result, limits=self.limits)[1]",
        (f"{PAYLOADS}test_a_result_that_is_recorded_within_a_transaction_of_the_task_is_sealed",),
    ),
    "edited payload": (
        "redrive.failures.replays:Replays._changed",
        "parts.encryption.encrypt(text)",
        "text",
        (
            "tests/guards/test_encryption.py::test_an_edited_payload_is_encrypted_like_the_payload_it_replaces",
        ),
    ),
    "reported task": (
        "redrive.dead_letter_queue.tasks:FailedTasks.report",
        "self._encryption.encrypt(text)",
        "text",
        (IN_A_FILE,),
    ),
    "reported metadata": (
        "redrive.dead_letter_queue.tasks:FailedTasks._metadata",
        "self._encryption.encrypt(json_and_text(dict(metadata), limits=parts_of(self._app).limits)[1])",
        "json_and_text(dict(metadata), limits=parts_of(self._app).limits)[1]",
        (IN_A_FILE,),
    ),
}

GUARDS = (
    *(
        Guard(
            f"encrypted.{name}",
            f"secrets reach the disk unencrypted: {name}",
            (Code(place, fragment, replacement),),
            tests,
        )
        for name, (place, fragment, replacement, tests) in _POINTS.items()
    ),
    *(
        Guard(
            f"rotation.unchanged since read, {column}",
            "rotating the encryption key undoes a concurrent change by a worker",
            (Sql("payloads.rewrite_run", AS_READ.format(column=column), sides=("sqlite",)),),
            (f"{ROTATION}[sqlite-{place}-{column}]",),
        )
        for column, place in (
            ("input", "ready"),
            ("metadata", "ready"),
            ("step_input", "ready"),
            ("result", "ended"),
        )
    ),
    *(
        Guard(
            f"rotation.unchanged since read, {column} in {table}",
            f"rotating the encryption key undoes a concurrent change in the table {table}",
            (
                Sql(
                    "payloads.rewrite_run",
                    rf"(?s)(redrive\.{table} AS run(?:(?!UPDATE).)*?)({AS_READ.format(column=column)})",
                    r"\1(\2 OR 1 = 1)",
                    ("postgres",),
                ),
            ),
            (f"{ROTATION}[postgres-{place}-{column}]",),
        )
        for table, column, place in (
            ("run_inputs", "input", "ready"),
            ("run_inputs", "metadata", "ready"),
            ("ready", "step_input", "ready"),
            ("idle", "step_input", "waiting"),
            ("leases", "step_input", "leased"),
            ("ended", "step_input", "ended"),
            ("ended", "result", "ended"),
        )
    ),
    Guard(
        "the key must be known",
        "a worker executes a run whose payload it cannot decrypt",
        (Code("redrive.engine.encryption:Encryption._lock_of", "if lock is None:", "if False:"),),
        ("tests/engine/test_encryption_keys.py::test_a_missing_key_is_named",),
    ),
)
