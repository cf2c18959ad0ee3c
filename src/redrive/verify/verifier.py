"""Verifying a database: all checks, one after the other."""

from __future__ import annotations

from typing import Any

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.store.database import Database, Session
from redrive.store.reading import place_of, reading
from redrive.store.schema import schema_of
from redrive.store.verification import Verification
from redrive.verify.chains import check_chains
from redrive.verify.checks import ALWAYS, AT_WORK, SETTLED, check_contradictions, run_checks
from redrive.verify.holders import check_holders
from redrive.verify.rules import Rules, check_rules
from redrive.verify.sums import check_sums
from redrive.verify.verdict import Told, Verdict, Witness
from redrive.verify.waits import check_waits
from redrive.verify.witnessed import check_witness


async def verify_unchanged(database: Database, **options: Any) -> Verdict:
    """Verify over connections that cannot write. SchemaError unless the tables are current; see `verify`."""
    reader = reading(database)
    try:
        (await schema_of(reader)).require(place_of(reader))
        return await verify(reader, **options)
    finally:
        await reader.close()


async def verify(
    database: Session,
    *,
    witness: Witness | None = None,
    settled: bool = False,
    leeway: float = 60.0,
    most: int = 100,
    tolerance: float = 0.05,
    clock: Clock = SYSTEM_CLOCK,
    told: Told | None = None,
) -> Verdict:
    """Does the database keep every promise? It is only read, and others may work on it meanwhile.

    witness    what somebody outside has seen
    settled    everything must have ended; otherwise nothing may be overdue by more than `leeway` seconds
    most       so many findings of each invariant are listed
    tolerance  seconds by which the clocks of those who wrote may differ
    clock      what a second look at suspects waits on
    told       is called with each promise, such as "I4", before it is looked at
    """
    verdict = Verdict(most, told)
    store = Verification(database, leeway=leeway, tolerance=tolerance, most=most + 1)
    rules = Rules(store)
    populations = await store.populations()
    if witness is not None:
        await check_witness(store, rules, verdict, witness)
    await run_checks(ALWAYS, store, verdict, populations)
    await check_contradictions(store, verdict, populations)
    await check_rules(store, rules, verdict)
    await check_waits(store, rules, verdict)
    await run_checks(SETTLED if settled else AT_WORK, store, verdict, populations)
    if not settled:
        await check_holders(store, verdict, clock, leeway)
    await check_chains(store, verdict)
    await check_sums(store, verdict)
    return verdict
