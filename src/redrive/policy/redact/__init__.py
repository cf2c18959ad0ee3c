"""Redaction: removes secrets before anything is stored, logged or forwarded."""

from redrive.policy.redact.redactor import DEFAULT_REDACTOR, MAX_TEXT_LENGTH, Redactor
from redrive.policy.redact.walk import MAX_DEPTH

__all__ = ["DEFAULT_REDACTOR", "MAX_DEPTH", "MAX_TEXT_LENGTH", "Redactor"]
