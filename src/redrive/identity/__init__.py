"""Organizations, members, API keys and sessions: who may act, and how they prove it."""
