"""The peers' programs of docs/comparison.md: run on real servers, with their types checked.

    make .venv-bench/.ready
    .venv-bench/bin/python -m bench.snippets

PostgreSQL comes from a wheel. Temporal has none, so two variables name its server and program:

    TEMPORAL_ADDRESS      a server, such as `temporal server start-dev`: 127.0.0.1:7233
    TEMPORAL_TEST_SERVER  the program of its test server, which skips time

If a variable is missing, the programs that need it do not run, and the report says so.
tests/docs/test_comparison.py compares the page with the files.
"""
