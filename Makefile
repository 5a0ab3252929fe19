# Everything runs in .venv, which is made when it is missing and brought up to date when setup.cfg changes.
# Needed: make and Python 3.11 or newer; name another interpreter with PYTHON=python3.12.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CODE := autoscaler cloudprovider tests benchmarks

# Least share of the conformance cases that must agree. Raise it whenever more do.
MIN_RATE := 0.99

VERSION := $(shell sed -n 's/^version = //p' setup.cfg)
IMAGE ?= node-autoscaler:$(VERSION)
ENGINE ?= $(firstword $(foreach tool,docker podman,$(if $(shell command -v $(tool)),$(tool))))

.DEFAULT_GOAL := help
.PHONY: help run test check lint types contracts unit conformance bench image clean

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*  ## /  make \1	/p' Makefile | expand -t 22

run: $(INSTALLED)  ## start the sandbox cluster and the autoscaler on this machine; ARGS="..." are passed on
	@$(BIN)/autoscaler demo $(ARGS)

test: $(INSTALLED)  ## run every test
	$(BIN)/python -m pytest -n auto $(ARGS)

check: lint types contracts unit  ## format, lint, types, import contracts and unit tests: what must pass before a commit

lint: $(INSTALLED)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)

types: $(INSTALLED)
	$(BIN)/mypy

contracts: $(INSTALLED)
	$(BIN)/lint-imports

unit: $(INSTALLED)
	$(BIN)/python -m pytest -n auto tests/unit

conformance: $(INSTALLED)  ## compare decisions with those recorded from Cluster Autoscaler
	$(BIN)/python -m tests.conformance.compare --min-rate $(MIN_RATE) $(ARGS)

bench: $(INSTALLED)  ## measure how long passes and their parts take
	$(BIN)/python -m benchmarks $(ARGS)

image:  ## build the container image; IMAGE=name:tag names it
	@test -n "$(ENGINE)" || { echo "no container engine found: install docker or podman, or name one with ENGINE=" >&2; exit 1; }
	@$(ENGINE) info >/dev/null 2>&1 || { echo "$(ENGINE) is installed, but its engine does not answer: start it, or name another with ENGINE=" >&2; exit 1; }
	$(ENGINE) build --tag $(IMAGE) .

clean:  ## remove whatever the other commands made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage*
	find . -name __pycache__ -prune -exec rm -rf {} +

# Touched last: an installation that was interrupted is done again.
$(INSTALLED): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one with PYTHON=python3.11" >&2; exit 1; }
	@echo "Preparing $(VENV): the first time this takes a minute" >&2
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,ui]'
	@touch $@
