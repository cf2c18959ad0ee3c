"""Listeners of the engine's events: the log, the console and metrics."""
