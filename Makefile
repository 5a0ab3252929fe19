# Everything runs in .venv, which is made when it is missing and brought up to date when setup.cfg or requirements/ change.
# Needed: make and Python 3.11 or newer; name another interpreter with PYTHON=python3.12.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNNING := $(VENV)/.running
DEVELOPING := $(VENV)/.developing
CODE := autoscaler cloudprovider tests benchmarks
# The locks name every package, so pip resolves nothing. Python compiles what it imports: most of it never is.
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps
INSTALL_LOCKED := $(PIP_INSTALL) --require-hashes --no-compile
LOCK_VENV := $(VENV)/lock
LOCK := $(LOCK_VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command 'make lock'

# Least share of the conformance cases that must agree. Raise it whenever more do.
MIN_RATE := 0.99

VERSION := $(shell sed -n 's/^version = //p' setup.cfg)
DECISIONS := $(shell sed -n '/^\[coverage:run\]/,/^$$/s/^    autoscaler\.//p' setup.cfg)
IMAGE ?= node-autoscaler:$(VERSION)
ENGINE ?= $(firstword $(foreach tool,docker podman,$(if $(shell command -v $(tool)),$(tool))))

.DEFAULT_GOAL := help
.PHONY: help run test check lint types contracts unit coverage conformance bench docs lock changelog image clean

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*  ## /  make \1	/p' Makefile | expand -t 22

run: $(RUNNING)  ## start the sandbox cluster and the autoscaler on this machine; ARGS="..." are passed on
	@$(BIN)/autoscaler demo $(ARGS)

test: $(DEVELOPING)  ## run every test
	$(BIN)/python -m pytest -n auto $(ARGS)

check: lint types contracts unit  ## format, lint, types, import contracts and unit tests: what must pass before a commit

lint: $(DEVELOPING)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)

types: $(DEVELOPING)
	$(BIN)/mypy

contracts: $(DEVELOPING)
	$(BIN)/lint-imports

unit: $(DEVELOPING)
	$(BIN)/python -m pytest -n auto tests/unit

coverage: $(DEVELOPING)  ## measure how much of the decisions their own unit tests run; fails below fail_under in setup.cfg
	@$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto $(addprefix tests/unit/,$(DECISIONS))
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

conformance: $(DEVELOPING)  ## compare decisions with those recorded from Cluster Autoscaler
	$(BIN)/python -m tests.conformance.compare --min-rate $(MIN_RATE) $(ARGS)

bench: $(DEVELOPING)  ## measure how long passes and their parts take
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(RUNNING)  ## write the pages that are generated from the code
	$(BIN)/autoscaler config flags -o markdown > docs/flags.md
	$(BIN)/autoscaler config schema > docs/plan-answer.schema.json
	$(BIN)/python -c 'from autoscaler.app.metric_document import markdown; print(markdown(), end="")' > docs/metrics.md
	$(BIN)/python -c 'from autoscaler.observe.reason_table import markdown; print(markdown(), end="")' > docs/reasons.md

lock:  ## pin in requirements/ what setup.cfg asks for; ARGS=--upgrade takes the newest versions
	@$(PYTHON) -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install -qq --disable-pip-version-check 'uv>=0.9,<1'
	$(LOCK) $(ARGS) setup.cfg --extra dev -o requirements/dev.txt
	$(LOCK) setup.cfg --extra ui -c requirements/dev.txt -o requirements/run.txt
	$(LOCK) setup.cfg --extra aws --extra azure --extra gce --extra grpc -c requirements/dev.txt -o requirements/image.txt
	@sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml | $(LOCK) $(ARGS) - -o requirements/build.txt

changelog: $(DEVELOPING)  ## for a release: move the notes in changelog.d to CHANGELOG.md
	$(BIN)/towncrier build --version $(VERSION) --yes

image:  ## build the container image; IMAGE=name:tag names it
	@test -n "$(ENGINE)" || { echo "no container engine found: install docker or podman, or name one with ENGINE=" >&2; exit 1; }
	@$(ENGINE) info >/dev/null 2>&1 || { echo "$(ENGINE) is installed, but its engine does not answer: start it, or name another with ENGINE=" >&2; exit 1; }
	$(ENGINE) build --tag $(IMAGE) .

clean:  ## remove whatever the other commands made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage*
	find . -name __pycache__ -prune -exec rm -rf {} +

# Stamps are touched last: an installation that was interrupted is done again.
$(RUNNING): setup.cfg pyproject.toml requirements/build.txt requirements/run.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one with PYTHON=python3.11" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)" >&2
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu install python3-venv" >&2; exit 1; }
	@echo "Installing the packages that running needs" >&2
	@$(INSTALL_LOCKED) -r requirements/build.txt -r requirements/run.txt
	@echo "Installing the node autoscaler" >&2
	@$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@

$(DEVELOPING): $(RUNNING) requirements/dev.txt
	@echo "Installing the packages that development needs" >&2
	@$(INSTALL_LOCKED) -r requirements/dev.txt
	@touch $@
