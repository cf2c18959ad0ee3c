"""Redaction: removes secrets before anything is stored, logged or forwarded."""

from redrive.policy.redact.redactor import DEFAULT_REDACTOR, MAX_TEXT_LENGTH, Redactor

__all__ = ["DEFAULT_REDACTOR", "MAX_TEXT_LENGTH", "Redactor"]
