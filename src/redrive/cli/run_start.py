"""`redrive run start`: start a run of a task or workflow."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from redrive.cli.checks import report_dry_run
from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.options import (
    DURATION,
    GlobalOptions,
    app_option,
    dry_run_option,
    output_option,
    timeout_option,
)
from redrive.cli.output import JSON, chosen, show_json
from redrive.cli.run_follow import follow
from redrive.cli.run_view import PATH
from redrive.cli.terminal import notice, out
from redrive.errors import InvalidValueError
from redrive.model.run import AfterFailure


@click.command()
@click.argument("work", metavar="WORK")
@click.argument("payload", metavar="[PAYLOAD]", default="null")
@app_option
@click.option("--key", metavar="KEY", help="Idempotency key: a run with this key is started once.")
@click.option("--queue", metavar="NAME", help="Use this queue instead of the one of the first task.")
@click.option("--delay", type=DURATION, metavar="DURATION", help="Start after this long, such as 10m.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag the run; repeatable.")
@click.option("--order-key", metavar="KEY", help="Execute runs with this key one at a time, in order.")
@click.option(
    "--after-failure",
    type=click.Choice([choice.value for choice in AfterFailure]),
    help="If the run becomes a dead letter, let later runs with its order key wait (default) or proceed.",
)
@click.option("--wait/--no-wait", default=False, help="Follow the run, like `redrive run watch`.")
@timeout_option
@dry_run_option
@output_option
@api_options(creates=True)
def start(
    client: Client,
    work: str,
    payload: str,
    key: str | None,
    queue: str | None,
    delay: float | None,
    tags: tuple[str, ...],
    order_key: str | None,
    after_failure: str | None,
    wait: bool,
    timeout: float | None,
    dry_run: bool,
    output: str | None,
) -> None:
    """Start a run of a task or workflow, and print its id.

    WORK is the name of a task or workflow. PAYLOAD is JSON, or text if it is not valid JSON; - reads stdin.
    The run is stored when the command returns, and a worker executes it.

    \b
    redrive run start checkout '{"order_id": 7}' --app shop.work:app --wait
    """
    options = {
        "queue": queue,
        "delay_seconds": delay,
        "tags": list(tags),
        "order_key": order_key,
        "after_failure": after_failure,
    }
    body = {"work": work, "payload": _payload(payload)} | {name: it for name, it in options.items() if it}
    if client.server is None and click.get_current_context().ensure_object(GlobalOptions).app is None:
        raise InvalidValueError(
            "only your application knows its tasks; pass it, such as --app shop.work:app, or use a server "
            "that was started with it"
        )
    if report_dry_run(f"start a run of {work}", dry_run, client.where):
        return
    started, form = client.post(PATH, body, key=key), chosen(output)
    if form in JSON:
        show_json(started, form)
    else:
        out(started["id"])
    if started["existed"]:
        notice("A run with this key exists already; nothing was started.")
    if wait:
        follow(client, started["id"], timeout, form)


def _payload(text: str) -> Any:
    text = sys.stdin.read() if text == "-" else text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip()[:1] in ("{", "[", '"'):
            raise InvalidValueError(f"PAYLOAD is not valid JSON: {error}") from None
        return text
