# Everything that a developer or a user of a clone runs. Each target installs what it needs into .venv first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
TRY := .venv-try
BIN := $(VENV)/bin
# A worker that died is not replaced: pytest-xdist may then wait for ever. tests/dead_worker.py ends the run.
PYTEST := $(BIN)/python -m pytest -n $(or $(WORKERS),2) --dist loadfile --no-loadscope-reorder --max-worker-restart=0
DEPLOY := $(BIN)/python -m infra.deploy
TARGET = $(if $(ENVIRONMENT),--environment $(ENVIRONMENT)) $(if $(STACK),--stack $(STACK))
# pip installs uv only. Where pip is told of another index, uv is told, too. uv's cache could grow by 2 GB with each clone.
INDEX := $(or $(UV_DEFAULT_INDEX),$(PIP_INDEX_URL),$(shell $(PYTHON) -m pip config get global.index-url 2>/dev/null))
# Makes the virtual environment of $(BIN), with uv.
define MAKE_VENV
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tidewheel needs Python 3.11 or newer; give one with make PYTHON=python3.13 ...")'
	$(PYTHON) -m venv $(@D)
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(@D)/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(@D)/uv.txt
endef
UV_INSTALL = $(if $(INDEX),UV_DEFAULT_INDEX=$(INDEX)) $(BIN)/uv pip install --quiet --no-cache --python $(BIN)/python

# Tests start hundreds of processes. Without bytecode each would compile numpy, boto3 and the rest again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install try demo test test-all test-nightly test-independent lint types imports simulate bench bench-all bench-record fuzz peers synth derived deploy diff destroy build bundle lock aws-smoke clean

##@ Start

help:  ## list the targets
	@awk -F ' *## *' '/^##@/ { print (NR > 1 && seen++ ? "\n" : "") substr($$0, 5) } \
		/^[a-z-]+:.*##/ { sub(/:.*/, "", $$1); printf "  %-18s%s\n", $$1, $$2; if ($$3) printf "%22s%s\n", "", $$3 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed  ## make .venv from the lock file

$(VENV)/.installed: requirements.lock pyproject.toml
	$(MAKE_VENV)
	$(UV_INSTALL) --require-hashes -r requirements.lock
	$(UV_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

try: $(TRY)/.installed  ## make .venv-try with the local service only: 400 MB

$(TRY)/.installed: BIN := $(TRY)/bin
$(TRY)/.installed: requirements.lock pyproject.toml
	$(MAKE_VENV)
	$(UV_INSTALL) --constraints requirements.lock -e '.[local]' pytest pytest-timeout
	@touch $@

demo: install  ## replay 60 days of real messages, then 30 real seconds
	$(BIN)/tidewheel demo

##@ Check a change

lint: install  ## check the format, and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: install  ## check types with strict mypy
	$(BIN)/mypy

imports: install  ## check import directions
	$(BIN)/lint-imports

test: install  ## run the tests, the quick ones first
	$(PYTEST) -m "not long" tests

test-all: install  ## run all tests, also those that take minutes
	$(PYTEST) -m "not nightly" tests

test-nightly: install  ## sweep all seeds, deaths, guards and damages, which takes an hour or two
	$(PYTEST) -m nightly tests

test-independent: install  ## run tests on DynamoDB Local, ElasticMQ, versitygw, MiniStack  ## INDEPENDENT=ministack; others need Java, Maven and Go
	$(BIN)/python -m tests.independent $(INDEPENDENT)

##@ Try to break it

simulate: install  ## run the flows under fresh seeds of failures and crashes  ## SEEDS=100 SIMULATE="--mode calm"
	$(BIN)/python -m tests.simulation --fresh $(or $(SEEDS),100) $(SIMULATE)

fuzz: install  ## damage stored data, and give decoders hostile input  ## EXAMPLES=20000
	$(BIN)/python -m tests.fuzz $(or $(EXAMPLES),20000)

##@ Measure

bench: install  ## run each hot path beside its bare floor  ## BENCH="ledger --quick"
	$(BIN)/python -m benchmarks $(BENCH)

bench-all: install  ## the same, with merging, rebuilding, importing, cost and others
	$(BIN)/python -m benchmarks --all $(BENCH)

bench-record: install  ## run all benchmarks, and save in benchmarks/results
	$(BIN)/python -m benchmarks --all --record

peers: install  ## run the same messages through Redis and others
	$(BIN)/python -m benchmarks peers

##@ Deploy

node_modules/.installed: package.json package-lock.json
	@command -v npm > /dev/null || { echo "The CDK's command line needs npm: install Node 22 or newer."; exit 1; }
	npm ci --no-audit --no-fund
	@touch $@

diff: install node_modules/.installed  ## show what a deployment would change  ## ENVIRONMENT=production STACK=name
	@$(DEPLOY) diff $(TARGET) $(ARGS)

deploy: install node_modules/.installed  ## deploy the stack to your AWS account  ## ENVIRONMENT=production STACK=name ARGS="--yes"
	@$(DEPLOY) deploy $(TARGET) $(ARGS)

destroy: install node_modules/.installed  ## remove the stack from your AWS account  ## ENVIRONMENT=production STACK=name ARGS="--yes"
	@$(DEPLOY) destroy $(TARGET) $(ARGS)

aws-smoke: install node_modules/.installed  ## deploy a stack of its own, prove it, remove it  ## ARGS="--yes"
	@stack=tidewheel-smoke-$$RANDOM; trap "$(DEPLOY) destroy --environment smoke --stack $$stack --yes" EXIT; \
		$(DEPLOY) deploy --environment smoke --stack $$stack $(ARGS) && $(BIN)/tidewheel --stack $$stack prove --yes

##@ Build

derived: install  ## write all that derives from code: templates, pages, tables, figures
	$(BIN)/python -m infra.derived

synth: install  ## synthesize the template into cdk.out/
	CDK_OUTDIR=cdk.out $(BIN)/python app.py

build: install  ## make the wheel and the source distribution, in dist/
	$(BIN)/python -m hatchling build -d dist

bundle: install  ## make the archives that are deployed, in build/bundles/
	$(BIN)/python -m infra.bundle build/bundles

lock: install  ## resolve the newest allowed versions into requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--all-extras --upgrade pyproject.toml -o requirements.lock
	$(BIN)/python -m infra.bundle_lock

clean:  ## delete what the other targets made
	rm -rf $(VENV) $(TRY) node_modules cdk.out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
