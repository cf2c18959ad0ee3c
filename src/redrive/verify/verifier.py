"""Run all checks on a database, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.duration import Seconds, to_seconds
from redrive.store.database import Application, Database, Session, database_of
from redrive.store.inspection import Inspection
from redrive.store.migration import schema_of
from redrive.store.sqlite_reader import place_of, reading
from redrive.store.verification import VerificationQueries
from redrive.verify.checks import (
    ALWAYS,
    SETTLED,
    WHILE_WORKING,
    check_chains,
    check_sums,
    check_timeouts,
    run_checks,
)
from redrive.verify.holders import check_holders
from redrive.verify.rules import DefinitionRules, check_rules, check_waits
from redrive.verify.verdict import OnCheck, Verdict
from redrive.verify.witness import Witness, check_witness


async def verify_unchanged(database: Database, **options: Any) -> Verdict:
    """Run `verify` over read-only connections. SchemaError if the tables are not current."""
    reader = reading(database)
    try:
        (await schema_of(reader)).require(place_of(reader))
        return await verify(reader, **options)
    finally:
        await reader.close()


async def verify(
    source: Session | Application,
    *,
    witness: Witness | None = None,
    settled: bool = False,
    leeway: Seconds = 60.0,
    most: int = 100,
    tolerance: Seconds = 0.05,
    clock: Clock = SYSTEM_CLOCK,
    on_check: OnCheck | None = None,
) -> Verdict:
    """Check every promise in an application's database. Only reads; workers may keep running.

    witness    what callers and receivers outside have seen
    settled    all work must have finished; otherwise nothing may be overdue by more than `leeway`
    most       maximum number of violations listed for each promise
    tolerance  how far the clocks of workers may differ
    clock      times the pause before suspected limits are checked again
    on_check   called with each promise, such as "I4", before its check
    """
    leeway, tolerance = to_seconds(leeway), to_seconds(tolerance)
    async with _reader(source) as database:
        verdict = Verdict(most, on_check)
        store = VerificationQueries(database, leeway=leeway, tolerance=tolerance, most=most + 1)
        rules = DefinitionRules(store)
        populations = await store.populations()
        if witness is not None:
            await check_witness(store, rules, verdict, witness)
        await run_checks(ALWAYS, store, verdict, populations)
        await check_rules(store, rules, verdict)
        await check_waits(store, rules, verdict)
        await run_checks(SETTLED if settled else WHILE_WORKING, store, verdict, populations)
        if not settled:
            await check_holders(store, verdict, clock, leeway)
            await check_timeouts(Inspection(database), verdict, leeway)
        await check_chains(store, verdict)
        await check_sums(store, verdict)
        return verdict


@asynccontextmanager
async def _reader(source: Session | Application) -> AsyncIterator[Session]:
    """Read an application's database over separate connections, so that its work doesn't wait."""
    database = database_of(source)
    if database is None:
        yield cast(Session, source)
        return
    reader = reading(database)
    try:
        yield reader
    finally:
        if not reader.in_memory:
            await reader.close()
