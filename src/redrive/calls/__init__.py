"""Outbound calls: bounded in time, classified, retried, guarded by a breaker and a retry budget."""
