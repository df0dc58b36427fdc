# Everything that a developer or a user of a clone runs. Each target installs what it needs into .venv first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install demo test lint types imports bench synth template build bundle lock aws-smoke clean

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
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: install  ## format check and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: install  ## strict mypy
	$(BIN)/mypy

imports: install  ## import directions
	$(BIN)/lint-imports

bench: install  ## every hot path beside its bare floor
	$(BIN)/python -m benchmarks

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
