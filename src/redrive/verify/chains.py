"""The audit (I14): the chain of every org is whole."""

from __future__ import annotations

from redrive.policy.chain import ChainCheck
from redrive.store.verification import Verification
from redrive.verify.verdict import Verdict


async def check_chains(store: Verification, verdict: Verdict) -> None:
    verdict.begin("I14")
    for (org,) in await store.ask("audited_orgs"):
        head, last = await store.audit.end(org)
        check = ChainCheck(org, None)
        async for entries in store.audit.following(org, last):
            check.take(entries)
        faults = check.finish(head, last)
        verdict.look("I14", check.checked)
        for fault in faults:
            verdict.find("I14", org, fault.text)
