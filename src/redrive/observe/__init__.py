"""Listeners for the engine's events: log, console and metrics."""
