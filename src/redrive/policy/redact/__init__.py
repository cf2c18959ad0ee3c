"""Redaction: secrets are taken out before anything is stored, logged or sent on."""

from redrive.policy.redact.redactor import DEFAULT_REDACTOR, MAX_TEXT_LENGTH, Redactor

__all__ = ["DEFAULT_REDACTOR", "MAX_TEXT_LENGTH", "Redactor"]
