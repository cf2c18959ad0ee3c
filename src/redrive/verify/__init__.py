"""The verifier: checks whether the data in a database keeps every promise that Redrive makes.

    verdict = await verify(database)
    print(verdict)
    assert verdict.sound

It only reads, and can run while workers do.
"""

from __future__ import annotations

from redrive.model.violation import ViolationCode
from redrive.verify.verdict import Verdict, Violation
from redrive.verify.verifier import verify, verify_unchanged
from redrive.verify.witness import Witness

__all__ = ["Verdict", "Violation", "ViolationCode", "Witness", "verify", "verify_unchanged"]
