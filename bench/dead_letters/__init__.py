"""Dead letters: what writing one costs, finding them among a million, and replaying many of them.

    python -m bench.dead_letters --quick
    python -m bench.dead_letters --only read,growth --database sqlite --letters 1000000
    git worktree add ../0.1 932ef55 && python -m bench.dead_letters --only replay --beside ../0.1

As in `bench.work`, a measurement is one process with a database of its own, measurements take turns, and what
is judged are ratios within the run; only what a person waits for is judged in milliseconds. Beside this
version, an earlier one can replay the same dead letters with its own benchmark, out of its own checkout.
"""
