"""Talks to other services."""
