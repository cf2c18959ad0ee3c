"""The HTTP API: a door. It parses requests, asks who is there, and calls what the application offers."""
