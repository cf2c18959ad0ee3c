"""The HTTP API beside a bare FastAPI route that asks the database the same.

    python -m bench.http --quick
    python -m bench.http --only start,list --database sqlite --connections 64

Both are one process each, on the same event loop, parser and database, and both are up at the same time; a
third process asks them in turns, and what is judged is the median of the ratios of neighbouring turns.
"""  # noqa: A005
