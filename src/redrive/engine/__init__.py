"""Making it happen: claims, executes, decides, records."""
