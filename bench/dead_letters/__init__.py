"""Dead letters: what writing one costs, finding them among a million, and replaying many of them.

    python -m bench.dead_letters --quick
    python -m bench.dead_letters --only read,growth --database sqlite --letters 1000000
    git worktree add ../0.1 932ef55 && python -m bench.dead_letters --only replay --beside ../0.1

As in `bench.work`, a measurement is one process with a separate database, measurements take turns, and the
targets are ratios within the run, or milliseconds where a person waits. For comparison, an earlier version
can replay the same dead letters with its own benchmark, from its own checkout.
"""
