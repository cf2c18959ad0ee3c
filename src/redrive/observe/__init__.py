"""Telling people and machines what the engine does."""
