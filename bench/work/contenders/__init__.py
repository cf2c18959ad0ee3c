"""One module per contender; see `bench.work.contender` for their interface."""
