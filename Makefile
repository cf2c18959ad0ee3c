# make test   creates the environment, installs everything into it, checks and tests the project
# make demo   shows what the project does
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help test check demo bench lock docs clean

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

test: check
	@$(BIN)/pytest -n 2

# make check  format, lint, types and import contracts; part of make test
check: $(READY)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports
	@$(BIN)/mypy --no-error-summary

demo: $(READY)
	@$(BIN)/python examples/demo.py

# make bench  measures the project beside its peers, in one run
bench: $(VENV)/.bench
	@$(BIN)/python bench/calls.py

$(VENV)/.bench: $(READY) requirements/bench.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements/bench.txt
	@touch $@

# make lock   resolves the dependencies anew (LOCK=--upgrade takes newer versions)
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" $(LOCK)
lock: $(VENV)/bin/uv
	@echo uv | $(COMPILE) - --output-file requirements/uv.txt
	@$(COMPILE) pyproject.toml --extra http --extra postgres --group test --group check --output-file requirements/dev.txt
	@$(COMPILE) pyproject.toml --group bench --constraint requirements/dev.txt --output-file requirements/bench.txt

$(VENV)/bin/uv:
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet uv

# make docs   writes the reference pages that follow from the code
docs: $(READY)
	@$(BIN)/python docs/reference/generate.py

# make clean  removes the environment and all caches
clean:
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
