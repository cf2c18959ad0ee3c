"""`redrive worker`: a user's own application, loaded with helpful errors, stopped without loss."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Command

SHOP = """
from redrive import Redrive

app = Redrive("sqlite:///work.db")
other = 7


@app.task(queue="mail")
async def send(number: int) -> None:
    with open("done.txt", "a") as file:
        file.write(f"{WORD} {number}\\n")


if __name__ == "__main__":
    app.sync.start_many(send, range(5))
    app.sync.close()
"""
PATIENCE = 60.0


def shop(directory: Path, word: str = "sent") -> None:
    (directory / "shop_of_test.py").write_text(SHOP.replace("{WORD}", word))


def worker(directory: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "redrive.cli", "worker", "shop_of_test:app", *more]
    return subprocess.Popen(command, cwd=directory, stderr=subprocess.PIPE, text=True)


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.1)


def done(directory: Path) -> list[str]:
    file = directory / "done.txt"
    return file.read_text().splitlines() if file.exists() else []


def test_it_works_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    shop(tmp_path)
    subprocess.run([sys.executable, "shop_of_test.py"], cwd=tmp_path, check=True)
    process = worker(tmp_path, "--queue", "mail", "--concurrency", "3")
    until(lambda: len(done(tmp_path)) == 5)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert told.startswith("Worker started with 1 task in queue mail. Press Ctrl-C to stop.\n")
    assert "Traceback" not in told


def test_its_log_says_why_it_stops_in_text_or_json(tmp_path: Path) -> None:
    shop(tmp_path)
    for log_format in ("text", "json"):
        process = worker(tmp_path, "--log-format", log_format)
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("processor.changed" in line for line in lines)
        process.send_signal(signal.SIGTERM)
        [stopping] = [line for line in lines if "worker.stopping" in line]
        process.communicate(timeout=PATIENCE)
        if log_format == "text":
            assert re.fullmatch(r"[0-9-]{10} [0-9:]{8} INFO worker\.stopping .*cause=SIGTERM\n", stopping)
        else:
            line = json.loads(stopping)
            assert (line["event"], line["cause"], line["level"]) == ("worker.stopping", "SIGTERM", "INFO")
            assert line["logger"] == "redrive.engine"


def test_it_starts_again_when_the_code_changes(tmp_path: Path) -> None:
    shop(tmp_path)
    process = worker(tmp_path, "--reload")
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    assert any(line.startswith("Worker started with 1 task") for line in lines)
    shop(tmp_path, "delivered")
    assert any("changed. Restarting." in line for line in lines)
    assert any(line.startswith("Worker started with 1 task") for line in lines)
    subprocess.run([sys.executable, "shop_of_test.py"], cwd=tmp_path, check=True)
    until(lambda: len(done(tmp_path)) == 5)
    assert all("delivered" in each for each in done(tmp_path))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("target", "code", "told"),
    [
        ("shop_of_test", 2, "'shop_of_test' is not MODULE:ATTRIBUTE, such as shop.work:app"),
        ("shop_of_test:ap", 2, "module 'shop_of_test' has no attribute 'ap'; did you mean shop_of_test:app?"),
        ("shop_of_test:other", 2, "shop_of_test:other is of type int, not Redrive"),
        ("shpo_of_test:app", 2, "no module 'shpo_of_test'"),
    ],
)
def test_a_wrong_target_is_explained(
    redrive: Command, tmp_path: Path, target: str, code: int, told: str
) -> None:
    shop(tmp_path)
    ended = redrive("worker", target)
    assert (ended.code, ended.out) == (code, "")
    assert told in ended.err


def test_a_wrong_queue_is_explained(redrive: Command, tmp_path: Path) -> None:
    shop(tmp_path)
    ended = redrive("worker", "shop_of_test:app", "--queue", "mial")
    assert ended.code == 3
    assert "did you mean 'mail'?" in ended.err


def test_settings_that_come_too_late_are_refused(redrive: Command, tmp_path: Path) -> None:
    shop(tmp_path)
    ended = redrive("worker", "shop_of_test:app", "--set", "database_url=sqlite:///other.db")
    assert ended.code == 2
    assert "REDRIVE_DATABASE_URL" in ended.err
