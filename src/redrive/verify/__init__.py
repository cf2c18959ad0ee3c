"""The checker: does what a database holds keep the promises that Redrive makes?

    verdict = await verify(database)
    print(verdict)
    assert verdict.sound

It reads only, and may be run while workers are at work.
"""

from __future__ import annotations

from redrive.verify.verdict import Finding, Verdict, Witness
from redrive.verify.verifier import verify, verify_unchanged

__all__ = ["Finding", "Verdict", "Witness", "verify", "verify_unchanged"]
