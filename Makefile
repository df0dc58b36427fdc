# Everything that a developer or a user of a clone runs. Each target installs what it needs into .venv first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
# A worker that died is not replaced: pytest-xdist may then wait for ever. tests/dead_worker.py ends the run.
PYTEST := $(BIN)/python -m pytest -n $(or $(WORKERS),3) --dist loadfile --no-loadscope-reorder --max-worker-restart=0
DEPLOY := $(BIN)/python -m infra.deploy
TARGET = $(if $(ENVIRONMENT),--environment $(ENVIRONMENT)) $(if $(STACK),--stack $(STACK))
# uv installs in a fifth of pip's time. Where pip is told of another index, uv is told, too; where uv fails, pip goes on.
INDEX := $(or $(UV_DEFAULT_INDEX),$(PIP_INDEX_URL),$(shell $(PYTHON) -m pip config get global.index-url 2>/dev/null))

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-independent lint types imports simulate bench bench-all bench-record report crash fuzz peers soak synth deploy diff destroy build bundle lock aws-smoke clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

install: $(VENV)/.installed  ## make .venv from the lock file

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tidewheel needs Python 3.11 or newer; give one with make PYTHON=python3.13 ...")'
	$(PYTHON) -m venv $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.txt
	$(PIP) -r $(VENV)/uv.txt
	$(if $(INDEX),UV_DEFAULT_INDEX=$(INDEX)) $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock \
		|| $(PIP) -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: install  ## replay 60 days of real messages on the local stack, then 30 seconds of real time
	$(BIN)/tidewheel demo

test: install  ## run the tests
	$(PYTEST) -m "not long"

test-all: install  ## run all tests, also those that take minutes
	$(PYTEST)

test-independent: install  ## the adapters and archives on DynamoDB Local, ElasticMQ and versitygw; needs Java, Maven and Go (INDEPENDENT="race")
	$(BIN)/python -m tests.independent $(INDEPENDENT)

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

fuzz: install  ## random damage of all that is stored (DAMAGES=200000 a way), hostile input of each decoder (EXAMPLES=20000); FUZZ="--save" writes the counts
	$(BIN)/python -m tests.fuzz $(or $(EXAMPLES),20000) --damages $(or $(DAMAGES),200000) $(FUZZ)

soak: install  ## virtual weeks, bursts, backlogs, fan-out and an outage in memory; exit code 1 if a promise is broken (SOAK="--small")
	$(BIN)/python -m benchmarks.soak $(if $(SOAK),$(SOAK),--save)

synth: install  ## synthesize the CloudFormation template into cdk.out/, refresh the local runtime's copy and the snapshot
	CDK_OUTDIR=cdk.out $(BIN)/python app.py
	$(BIN)/python -m infra.local_template
	$(BIN)/python -m infra.snapshot

node_modules/.installed: package.json package-lock.json
	@command -v npm > /dev/null || { echo "The CDK's command line needs npm: install Node 22 or newer."; exit 1; }
	npm ci --no-audit --no-fund
	@touch $@

deploy: install node_modules/.installed  ## deploy the stack to your AWS account (ENVIRONMENT=production, STACK=name, ARGS="--yes")
	@$(DEPLOY) deploy $(TARGET) $(ARGS)

diff: install node_modules/.installed  ## show what a deployment would change (the same variables)
	@$(DEPLOY) diff $(TARGET) $(ARGS)

destroy: install node_modules/.installed  ## remove the stack from your AWS account (the same variables)
	@$(DEPLOY) destroy $(TARGET) $(ARGS)

aws-smoke: install node_modules/.installed  ## deploy a service to your AWS account, try all of it, remove it (SMOKE="--yes --region eu-west-1" for options)
	$(BIN)/python -m pytest -p no:xdist -v -s tests/e2e --account $(SMOKE)

build: install  ## the wheel and the source distribution, in dist/
	$(BIN)/python -m hatchling build -d dist

bundle: install  ## the archives as they are deployed, in build/bundles/, with their sizes
	$(BIN)/python -m infra.bundle build/bundles

lock: install  ## resolve the newest allowed versions into requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--all-extras --upgrade pyproject.toml -o requirements.lock
	$(BIN)/python -m infra.bundle_lock

clean:  ## delete what the other targets made
	rm -rf $(VENV) node_modules cdk.out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
