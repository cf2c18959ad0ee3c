"""From what the application gives to what an answer holds."""
