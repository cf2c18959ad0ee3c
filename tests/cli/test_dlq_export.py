"""`redrive dlq export`: all letters, in order, and never a partial file; `redrive dlq clear`."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.shop import Shop

from redrive.cli import client as client_module
from redrive.dead_letter_queue.queue import DeadLetterQueue
from redrive.settings import Settings


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_all_of_them_with_payloads_and_attempts(
    anywhere: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pages, closed letters too; secrets stay redacted."""
    monkeypatch.setattr(client_module, "PAGE", 2)
    letters = [shop.dead_letter(number, card="slow") for number in range(5)]
    assert anywhere("dlq", "resolve", letters[0], "--yes").code == 0
    exported = anywhere("dlq", "export")
    found = lines(exported.out)
    assert (exported.code, [each["id"] for each in found]) == (0, letters)
    assert exported.err == "Exported 5 dead letters.\n"
    assert [each["payload"]["number"] for each in found] == list(range(5))
    assert {len(each["attempt_list"]) for each in found} == {3}
    assert "Traceback" in found[0]["stack"]
    assert "hunter2" not in exported.out


def test_of_a_query_as_wished(anywhere: Command, shop: Shop) -> None:
    declined, slow = shop.dead_letter(1), shop.dead_letter(2, card="slow")
    [only] = lines(anywhere("dlq", "export", "-category:timeout", "--with", "nothing").out)
    assert (only["id"], "payload" in only, "stack" in only) == (declined, False, False)
    [only] = json.loads(
        anywhere("dlq", "export", "category:timeout", "--with", "history,verdict,notes", "-o", "json").out
    )
    assert (only["id"], only["history"]["replays"], only["notes"]) == (slow, [], [])
    table = list(csv.DictReader(io.StringIO(anywhere("dlq", "export", "--limit", "1", "-o", "csv").out)))
    assert [row["id"] for row in table] == [declined]
    assert anywhere("dlq", "export", "is:archived", "-o", "json").out == "[]\n"
    assert anywhere("dlq", "export", "--with", "everything").code == 2


def test_into_a_file(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    letter = shop.dead_letter(1)
    exported = redrive("dlq", "export", "--output-file", "letters.ndjson")
    assert exported == (0, "", "Exported 1 dead letter to letters.ndjson.\n")
    file = tmp_path / "letters.ndjson"
    assert [each["id"] for each in lines(file.read_text())] == [letter]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shop.dead_letter(2)
    assert redrive("dlq", "export", "--output-file", "letters.ndjson").code == 2  # no terminal to ask
    assert len(lines(file.read_text())) == 1
    assert redrive("dlq", "export", "--output-file", "letters.ndjson", "--yes").code == 0
    assert len(lines(file.read_text())) == 2
    missing = redrive("dlq", "export", "--output-file", "no/such/letters.ndjson")
    assert (missing.code, "can't write to no/such" in missing.err) == (2, True)


def test_no_half_a_file(
    redrive: Command, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database fails in the middle: the previous file stays, without a temporary file next to it."""
    for number in range(3):
        shop.dead_letter(number)
    (tmp_path / "letters.ndjson").write_text("as before")
    ask, asked = client_module.Client.get, []

    def broken(self: client_module.Client, path: str, **query: object) -> Any:
        asked.append(path)
        if len(asked) > 6:
            raise OSError("the disk is gone")
        return ask(self, path, **query)

    monkeypatch.setattr(client_module.Client, "get", broken)
    ended = redrive("dlq", "export", "--output-file", "letters.ndjson", "--yes")
    assert (ended.code, "the disk is gone" in ended.err) == (1, True)
    assert (tmp_path / "letters.ndjson").read_text() == "as before"
    assert [each.name for each in tmp_path.iterdir() if "letters" in each.name] == ["letters.ndjson"]


def test_clearing_a_stand_alone_queue(redrive: Command) -> None:
    """M12: only with the right number."""

    async def fill() -> None:
        async with DeadLetterQueue(name="mails", settings=Settings.load(), log=False) as queue:
            for number in range(3):
                await queue.enqueue(f"mail {number}", {"number": number}, error="no such address")

    asyncio.run(fill())
    assert redrive("dlq", "clear", "mails", "--yes").code == 2
    assert redrive("dlq", "clear", "mails", "--expect", "2", "--yes").code == 6
    would = redrive("dlq", "clear", "mails", "--expect", "3", "--dry-run")
    assert "Would permanently delete 3 dead letters of dlq:mails (database redrive.db)." in would.err
    cleared = redrive("dlq", "clear", "dlq:mails", "--expect", "3", "--yes")
    assert (cleared.code, cleared.err) == (0, "Deleted 3 dead letters of dlq:mails.\n")
    assert redrive("dlq", "list", "is:any", "-o", "json").out == "[]\n"
