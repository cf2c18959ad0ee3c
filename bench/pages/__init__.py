"""The admin pages with a million dead letters and as many runs: how long a server takes for each page.

    python -m bench.pages --quick
    python -m bench.pages --database sqlite --keep filled --only pages

Filling a database takes minutes; --keep reuses it. The targets are in milliseconds, because a person waits.
"""
