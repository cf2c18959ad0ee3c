"""Consumers of Redis streams: entries are stored first, then acknowledged."""
