"""The admin pages among a million dead letters and as many runs: how long a server takes for each of them.

    python -m bench.pages --quick
    python -m bench.pages --database sqlite --keep filled --only pages

Filling a database takes minutes; with --keep it is done once. Judged are milliseconds, since a person waits.
"""
