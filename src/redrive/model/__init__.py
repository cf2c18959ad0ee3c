"""The domain model: states, state transitions and value types."""
