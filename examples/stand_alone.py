"""A program that runs its own tasks and uses only the dead-letter queue of Redrive.

python examples/stand_alone.py
"""

from __future__ import annotations

import tempfile
from typing import Any

from redrive import DeadLetterQueue

MAIL_SERVER = {"up": False}


def send(mail: dict[str, Any]) -> str:
    """The program's own task."""
    if not MAIL_SERVER["up"]:
        raise ConnectionError("the mail server does not answer")
    if "@" not in mail["to"]:
        raise ValueError(f"{mail['to']} is not an address")
    return f"sent to {mail['to']}"


def main() -> None:
    queue = DeadLetterQueue(f"sqlite:///{tempfile.mkdtemp()}/failed.db", send, log=False)
    failed = queue.sync  # without an event loop; with one: await queue.enqueue(...)

    for number, address in enumerate(["ada@example.org", "bob@example.org", "carol"]):
        mail = {"to": address, "text": "Hello"}
        try:
            send(mail)
        except Exception as error:  # noqa: BLE001 — no error may lose the mail
            failed.enqueue(f"mail-{number}", mail, error=error, metadata={"team": "post"})

    print(f"{len(failed)} mails failed; {failed['mail-0'].error}")

    MAIL_SERVER["up"] = True
    for item in failed.list("pending"):
        outcome = failed.retry(item.task_id)
        print(f"{item.task_id}: {outcome.result if outcome else outcome.error}")

    failed.archive("mail-2", reason="asked carol for an address")
    figures = failed.statistics()
    print(f"{figures.queue_size} are left of {figures.lifetime_stats.enqueued_total}")
    failed.close()


if __name__ == "__main__":
    main()
