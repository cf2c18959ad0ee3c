"""Libraries that the shop has not written itself."""
