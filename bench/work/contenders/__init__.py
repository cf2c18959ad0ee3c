"""One module a contender; see `bench.work.contender` for what they have in common."""
