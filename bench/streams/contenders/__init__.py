"""One module for each contender; see `bench.streams.contender` for what they have in common."""
