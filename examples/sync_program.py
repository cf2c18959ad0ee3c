"""A program without an event loop. It starts runs and waits; a worker in a second process executes them.

python examples/sync_program.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from redrive import Context, Redrive
from redrive.errors import RunFailedError
from redrive.words import explain

DATABASE = os.environ.get("REDRIVE_DATABASE_URL") or f"sqlite:///{tempfile.mkdtemp()}/work.db"

app = Redrive(DATABASE, log=False)


@app.task(timeout=10.0)
def count_words(context: Context, text: str) -> int:
    if not text:
        raise ValueError("there is nothing to count")  # final: not retried
    for _ in text.split():
        time.sleep(0.05)
        context.check()  # a thread can't be stopped from outside, so it checks
    return len(text.split())


def main() -> None:
    runs = [app.sync.start(count_words, text) for text in ("one two three", "four five", "")]
    for run in runs:
        try:
            print(f"{run.id}: {run.result(timeout=30)} words")
        except RunFailedError as error:
            letter = run.dead_letter()
            print(f"{run.id}: {error.state}, {explain(letter.decision) if letter else ''}")
    app.sync.close()


if __name__ == "__main__":
    if "work" in sys.argv:
        app.run_worker()
    else:
        environment = {**os.environ, "REDRIVE_DATABASE_URL": DATABASE}
        worker = subprocess.Popen([sys.executable, __file__, "work"], env=environment)
        try:
            main()
        finally:
            worker.terminate()  # SIGTERM: it finishes its work in progress
            worker.wait()
