# make test      creates the environment, then checks and tests the project
# make test-all  the same plus the slow tests: both databases everywhere, every page, packages, the demo
# make demo      a demo company with failures to fix and replay (STORE=postgresql)
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Tests start hundreds of interpreters. Where the environment forbids bytecode, keep it outside the source.
ifdef PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.pytest_cache/bytecode
unexport PYTHONDONTWRITEBYTECODE
endif

.DEFAULT_GOAL := help
.PHONY: help test test-all proof check demo build simulate guards crash cluster fuzz databases bench lock docs clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Redrive needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ...")'
	@echo "creating the environment in $(VENV) …"
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 && pip="$(BIN)/python -m pip" || pip="$(PYTHON) -m pip --python $(BIN)/python"; \
		$$pip install --quiet --require-hashes --requirement requirements/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

test: $(READY)
	@echo "checking and testing, about five minutes on two idle cores …"
	@$(MAKE) --no-print-directory check TYPES=src >$(VENV)/check.txt 2>&1 & check=$$!; \
		$(BIN)/pytest -n 3 --tier=test -p no:schemathesis -p no:anyio; tests=$$?; wait $$check; checks=$$?; cat $(VENV)/check.txt; exit $$((tests | checks))

test-all: test
	@echo "testing the rest, about ten minutes on two idle cores …"
	@$(BIN)/mypy --no-error-summary & types=$$!; $(BIN)/pytest -n 3 --tier=rest; tests=$$?; wait $$types; exit $$((tests | $$?))

# make check     format, lint, types, import contracts and plain English; part of make test, which checks the types of src only
check: $(READY)
	@echo "checking format, lint, types, imports and plain English …"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports
	@$(BIN)/python -m tests.plain_english
	@$(BIN)/mypy --no-error-summary $(TYPES)

demo: $(READY)
	@$(BIN)/redrive demo $(if $(STORE),--store $(STORE))

# make simulate  many seeded histories of the engine, with faults (SEEDS=10000 FIRST=0)
SEEDS ?= 10000
FIRST ?= 0
simulate: $(READY)
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --first $(FIRST)

# make guards    switches off each safety guard in turn, and checks that a test fails
guards: $(READY)
	@$(BIN)/python -m tests.guards

# make crash     kills real workers, servers and connections under load (MINUTES=10)
MINUTES ?= 10
crash: $(READY)
	@$(BIN)/python -m tests.crash --minutes $(MINUTES)

# make cluster   failovers, partitions and poolers under work (FAILOVERS=20 PARTITIONS=9 FAULTS=6; short: 4 3 3)
FAILOVERS ?= 20
PARTITIONS ?= 9
FAULTS ?= 6
cluster: $(READY)
	@$(BIN)/pytest -q tests/cluster
	@$(BIN)/python -m tests.cluster --failovers $(FAILOVERS) --partitions $(PARTITIONS) --faults $(FAULTS)

# make proof     simulate, crash, cluster, guards, fuzz and databases (SEEDS=10000 MINUTES=10 EXAMPLES=20)
proof: simulate crash cluster guards fuzz databases

# make fuzz      thousands of requests generated from the OpenAPI document, as every role (EXAMPLES=20 SEED=0)
EXAMPLES ?= 20
SEED ?= 0
fuzz: $(READY)
	@$(BIN)/python -m tests.server.fuzz --examples $(EXAMPLES) --seed $(SEED)

# make databases the store tests and the journeys on every supported PostgreSQL (VERSIONS=14,16)
databases: $(READY)
	@$(BIN)/python -m tests.postgres_versions $(if $(VERSIONS),--versions $(VERSIONS))

# make bench     measures Redrive and its peers in the same run (QUICK=1 for a short one)
# In a separate environment, so that the peers' dependencies don't change what is tested.
BENCH     := .venv-bench
BENCH_BIN := $(BENCH)/bin
bench: $(BENCH)/.ready
	@$(BENCH_BIN)/python -m bench.calls; calls=$$?; $(BENCH_BIN)/python -m bench.work $(if $(QUICK),--quick); work=$$?; \
		$(BENCH_BIN)/python -m bench.dead_letters --quick; letters=$$?; $(BENCH_BIN)/python -m bench.http --quick; http=$$?; \
		$(BENCH_BIN)/python -m bench.pages --quick; pages=$$?; $(BENCH_BIN)/python -m bench.streams --quick; \
		exit $$((calls | work | letters | http | pages | $$?))

$(BENCH)/.ready: $(READY) requirements/bench.txt
	@echo "creating the environment in $(BENCH) …"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(BENCH)
	@$(BIN)/uv pip install --quiet --python $(BENCH_BIN)/python --require-hashes --requirement requirements/bench.txt
	@$(BIN)/uv pip install --quiet --python $(BENCH_BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# make lock      resolves the dependencies again (LOCK=--upgrade takes newer versions)
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" $(LOCK)
lock: $(VENV)/bin/uv
	@echo uv | $(COMPILE) - --output-file requirements/uv.txt
	@$(COMPILE) pyproject.toml --extra cli --extra encryption --extra http --extra metrics --extra oidc --extra postgres --extra redis --extra reload --extra server --group test --group check --group docs --output-file requirements/dev.txt
	@$(COMPILE) pyproject.toml --extra http --extra postgres --extra server --group bench --output-file requirements/bench.txt

$(VENV)/bin/uv:
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet uv

# make docs      generates the reference pages from the code, and builds the site into site/
docs: $(READY)
	@$(BIN)/python -m docs.reference.generate
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# make build     builds the wheel and the source distribution into dist/
build: $(READY)
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python

# make clean     removes the environment and all caches
clean:
	@rm -rf $(VENV) $(BENCH) build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
