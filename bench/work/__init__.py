"""Durable work compared with the peers: the same jobs, the same servers, the same machine, in one run.

    python -m bench.work --quick
    python -m bench.work --only drain,workflow --peers pgqueuer,huey --database postgresql

A measurement is one process (`measurement`), which has a separate database, starts workers in further
processes (`worker`) and prints its results. Measurements of all contenders take turns, several times; the
tables show medians and spreads, and the targets are ratios within the run (`targets`).
"""
