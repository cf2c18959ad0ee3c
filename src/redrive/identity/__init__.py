"""Organizations, members, API keys and sessions: authentication and authorization."""
