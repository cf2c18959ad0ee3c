"""The engine: claims runs, executes their steps, handles failures and records the results."""
