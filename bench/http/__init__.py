"""The HTTP API compared with a bare FastAPI route that sends the same queries to the database.

    python -m bench.http --quick
    python -m bench.http --only start,list --database sqlite --connections 64

Each is one process, with the same event loop, parser and database, and both run at the same time. A third
process sends requests to them in turn; the result is the median of the ratios of neighboring turns.
"""  # noqa: A005
