# `make help` lists the targets. Everything lives in .venv of this clone; the only needs are Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MEMBERS := $(wildcard */pyproject.toml) $(wildcard */*/pyproject.toml)
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.DEFAULT_GOAL := help
.PHONY: help setup run test test-slow check format docs bench clean

help:            ## List the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(STAMP)  ## Make .venv with every distribution of the workspace, editable.

$(STAMP): constraints.txt requirements-dev.txt $(MEMBERS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt pip setuptools wheel hatchling editables
	$(BIN)/python -m pip install -q torch==2.13.0
	$(BIN)/python -m pip install -q --no-build-isolation -c constraints.txt -r requirements-dev.txt
	@touch $@

run: setup       ## Train the quickstart task on CPU, about a minute: before, after, curve, report.
	$(BIN)/plaudit train examples/quickstart.toml --overwrite

test: setup      ## The tests: core, verifiers, plugins, the local sandbox, gloo ranks.
	$(BIN)/python -m pytest -n 2 -m "not slow and not docker"

test-slow: setup ## What is too long or too heavy for CI: the whole parity grid, soaks, Ray, full examples.
	$(BIN)/python -m pip install -q -c constraints.txt "ray>=2.40" wandb
	$(BIN)/python -m pytest -m "slow and not docker"

check: setup     ## Formatting, lint, types.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy core/src sandbox/src

format: setup    ## Format, and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup      ## Build the documentation into site/.
	$(BIN)/mkdocs build --strict --quiet

bench: setup     ## The measured comparisons: golden vectors, learning and rewards beside TRL, sandboxes, maths.
	$(BIN)/python benchmarks/golden.py core/tests/data/golden.json
	$(BIN)/python benchmarks/learning.py --peer trl
	$(BIN)/python benchmarks/rewards.py --peer trl
	$(BIN)/python benchmarks/sandbox.py
	$(BIN)/python benchmarks/math_verifier.py

clean:           ## Remove .venv, caches and runs.
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache runs site
