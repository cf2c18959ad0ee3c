"""Durable work beside the peers: the same jobs, the same servers, the same machine, in one run.

    python -m bench.work --quick
    python -m bench.work --only drain,workflow --peers pgqueuer,huey --database postgresql

A measurement is one process (`measurement`), which has a database of its own, starts workers as further
processes (`worker`) and prints what it has found. Measurements of all contenders take turns, several times;
the tables show medians and spreads, and only ratios within the run are judged (`targets`).
"""
