"""Execute a request once per idempotency key."""
