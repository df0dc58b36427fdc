# Everything that a developer or a user of a clone runs. Each target installs what it needs into .venv first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install demo test lint types imports simulate bench bench-all bench-record report crash fuzz peers soak synth template build bundle lock aws-smoke clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

install: $(VENV)/.installed  ## make .venv from the lock file

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tidewheel needs Python 3.11 or newer; give one with make PYTHON=python3.13 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: install  ## replay 60 days of real messages on the local stack, then 30 seconds of real time
	$(BIN)/tidewheel demo

test: install  ## run all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: install  ## format check and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: install  ## strict mypy
	$(BIN)/mypy

imports: install  ## import directions
	$(BIN)/lint-imports

peers: install  ## Tidewheel beside Redis, DynamoDB and EventBridge Scheduler, on the same stream
	$(BIN)/python -m benchmarks.peers

simulate: install  ## the flows under SEEDS=100 seeds of failures, crashes and late triggers (SIMULATE="--mode calm" for options)
	$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),100) $(SIMULATE)

bench: install  ## every hot path beside its bare floor (BENCH="--compare" or "ledger --quick" for options)
	$(BIN)/python -m benchmarks $(BENCH)

bench-all: install  ## the same with the slow ones: merging, rebuilding, importing, cost
	$(BIN)/python -m benchmarks --all $(BENCH)

bench-record: install  ## all of them into benchmarks/results/, and docs/performance.md anew
	$(BIN)/python -m benchmarks --all --record $(BENCH)
	$(BIN)/python -m benchmarks.report

report: install  ## write the documents that are made of results
	$(BIN)/python -m benchmarks.report

crash: install  ## let every flow die at each of its AWS calls, on moto; prints a table (CRASH="--story ingest" for a part)
	$(BIN)/python -m tests.crash --all $(or $(CRASH),--save)

fuzz: install  ## hostile input, at random, EXAMPLES=20000 for each decoder; prints the counts (FUZZ="--save" writes them down)
	$(BIN)/python -m tests.fuzz $(or $(EXAMPLES),20000) $(FUZZ)

soak: install  ## virtual weeks, bursts, backlogs, fan-out and an outage in memory; exit code 1 if a promise is broken (SOAK="--small")
	$(BIN)/python -m benchmarks.soak $(if $(SOAK),$(SOAK),--save)

synth: install  ## synthesize the CloudFormation template into cdk.out/, refresh the local runtime's copy and the snapshot
	CDK_OUTDIR=cdk.out $(BIN)/python app.py
	$(BIN)/python -m infra.local_template
	$(BIN)/python -m infra.snapshot

aws-smoke: install  ## deploy a service to your AWS account, try all of it, remove it (SMOKE="--yes --rebuild glue" for options)
	$(BIN)/python -m smoke $(SMOKE)

build: install  ## the wheel and the source distribution, in dist/
	$(BIN)/python -m hatchling build -d dist

bundle: install  ## the functions' bundles as they would be deployed, in build/bundles/, with their sizes
	$(BIN)/python -m infra.bundle build/bundles

lock: install  ## resolve the newest allowed versions into requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--all-extras --upgrade pyproject.toml -o requirements.lock
	$(BIN)/python -m infra.bundle_lock

clean:  ## delete what the other targets made
	rm -rf $(VENV) cdk.out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
