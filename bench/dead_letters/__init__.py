"""Dead letters: what writing one costs, finding them among a million, and replaying many of them.

    python -m bench.dead_letters --quick
    python -m bench.dead_letters --only read,growth --database sqlite --letters 1000000

As in `bench.work`, a measurement is one process with a database of its own, measurements take turns, and what
is judged are ratios within the run; only what a person waits for is judged in milliseconds.
"""
