"""What the shop has not written itself."""
