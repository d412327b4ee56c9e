# Everything runs in .venv, into which each target installs what it needs. Needed on the machine:
# Python 3.11 or newer, make and git.
#
#   make lab PORT=9000          another port than a free one
#   make test PYTHON=python3.12 another Python (for a new .venv)
#   make test TESTS=tests/kernels

.DEFAULT_GOAL := help

PYTHON  ?= python3
# One runs the tests with a browser (tests/conftest.py). Each takes 4 s to collect the tests.
WORKERS ?= 3
TESTS   ?= tests

VENV := .venv
BIN  := $(VENV)/bin
# What the panel is built from.
PANEL_SOURCES := package.json yarn.lock .yarnrc.yml tsconfig.json $(shell find src style schema -type f)
# Node and jlpm are those of the environment, whatever the machine has.
JLPM := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/jlpm
# uv installs in seconds what takes pip minutes. It does not read pip's configuration; the index that
# this names is meant for uv as well.
PIP  := $(BIN)/python -m pip --disable-pip-version-check --no-input
INDEX = $$($(PIP) config get global.index-url 2>/dev/null | sed 's/^/--default-index /')
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python $(INDEX)

# Hundreds of kernels and servers start from bytecode; without it each compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

say = @echo "== $(1)"

.PHONY: help
help: ## Show this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

# -- set up ----------------------------------------------------------------------------------------
# A stamp is newer than what it was made from, or its recipe runs again.

$(VENV)/.made:
	$(call say,Making $(VENV) with $(PYTHON))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed, and $(PYTHON) is older or missing: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) cannot make environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PIP) install -qq 'uv>=0.9'
	@touch $@

# The panel is built with a few of the dependencies, while the others are installed.
$(VENV)/.tools: pyproject.toml $(VENV)/.made
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' >$(VENV)/tools.txt
	@$(INSTALL) -r $(VENV)/tools.txt
	@touch $@

$(VENV)/.lab-dependencies: $(VENV)/.tools
	$(call say,Installing JupyterLab)
	@$(INSTALL) $(COMPILE) -r pyproject.toml --extra lab --extra collab --extra panel
	@touch $@

$(VENV)/.dependencies: $(VENV)/.lab-dependencies
	$(call say,Installing what tests and linters need)
	@$(INSTALL) $(COMPILE) -r pyproject.toml --extra test --extra docs --extra dev
	@$(BIN)/python -m bash_kernel.install --sys-prefix >/dev/null
	@touch $@

node_modules/.made: package.json yarn.lock .yarnrc.yml | $(VENV)/.tools
	$(call say,Installing what the panel is built with)
	@$(JLPM) install --immutable >$(VENV)/jlpm.log || { cat $(VENV)/jlpm.log >&2; exit 1; }
	@touch $@

$(VENV)/.panel: $(PANEL_SOURCES) node_modules/.made
	$(call say,Building the panel)
	@$(JLPM) build >$(VENV)/jlpm.log 2>&1 || { cat $(VENV)/jlpm.log >&2; exit 1; }
	@touch $@

# JupyterLab reads the panel through a link: it shows the latest build.
$(VENV)/.lab: $(VENV)/.lab-dependencies | $(VENV)/.panel
	$(call say,Installing the extension)
	@$(INSTALL) --no-deps -e .
	@$(BIN)/jupyter-builder develop --overwrite . >$(VENV)/link.log 2>&1 || { cat $(VENV)/link.log >&2; exit 1; }
	@touch $@

$(VENV)/.all: $(VENV)/.dependencies $(VENV)/.lab
	@touch $@

.PHONY: setup
setup: ## Set up .venv with everything
	@$(MAKE) --silent --no-print-directory --jobs=2 COMPILE=--compile-bytecode $(VENV)/.all $(VENV)/.panel

# -- use -------------------------------------------------------------------------------------------

.PHONY: lab
lab: ## Start JupyterLab with an example notebook, and show how to connect an agent
	@$(MAKE) --silent --no-print-directory --jobs=2 $(VENV)/.lab $(VENV)/.panel
	@$(BIN)/python scripts/lab.py $(if $(PORT),--port $(PORT))

.PHONY: demo
demo: ## Show an agent's work in a real notebook, in a terminal
	@$(MAKE) --silent --no-print-directory --jobs=2 $(VENV)/.lab
	@$(BIN)/python scripts/demo.py

# -- check -----------------------------------------------------------------------------------------

# Two side by side, where make can keep apart what they print (GNU make 4).
SIDE_BY_SIDE := $(if $(filter output-sync,$(.FEATURES)),--jobs=2 --output-sync=target)
LINTERS := oxlint pyrefly ruff

.PHONY: lint
lint: $(VENV)/.all node_modules/.made ## Run ruff, import-linter, codespell, pyrefly, oxlint, oxfmt
	@$(MAKE) --no-print-directory $(SIDE_BY_SIDE) $(LINTERS)

.PHONY: ruff
ruff: $(VENV)/.all
	$(call say,ruff lint-imports codespell)
	@$(BIN)/ruff check --quiet --output-format concise
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/codespell

.PHONY: pyrefly
pyrefly: $(VENV)/.all
	$(call say,pyrefly)
	@$(BIN)/pyrefly check --output-format min-text --summary=none

.PHONY: oxlint
oxlint: $(VENV)/.all node_modules/.made
	$(call say,oxlint oxfmt)
	@$(JLPM) lint

.PHONY: jest
jest: $(VENV)/.all node_modules/.made
	$(call say,jest)
	@$(JLPM) test

.PHONY: format
format: $(VENV)/.all node_modules/.made ## Fix what ruff, oxlint and oxfmt can fix
	@$(BIN)/ruff check --fix --quiet --output-format concise
	@$(BIN)/ruff format
	@$(JLPM) format

# Commands that run at the same time as the tests. In a variable: `make -n` runs no line that names make itself.
BESIDE = --beside '$(MAKE) --no-print-directory oxlint jest' \
	--beside '$(MAKE) --no-print-directory versions VERSIONS=lowest'

.PHONY: test
test: setup ## Run every linter and test
	@$(MAKE) --no-print-directory ruff pyrefly
	$(call say,pytest)
	@$(BIN)/python scripts/tests.py $(BESIDE) $(TESTS) -n $(WORKERS)

# For each commit.
UNIT_TESTS = tests/model tests/workspace tests/test_project.py tests/test_requirements.py

.PHONY: check
check: $(VENV)/.all node_modules/.made ## Run linters, unit tests and jest, in under a minute
	@$(MAKE) --no-print-directory ruff pyrefly oxlint jest
	@$(BIN)/python -m pytest $(UNIT_TESTS) -n 2 -q

# Not the newest in `make test`: a release of theirs says nothing about a commit of ours.
VERSIONS ?= lowest newest

.PHONY: versions
versions: $(VENV)/.all $(VENV)/.panel ## Test server and page with the lowest declared versions of Jupyter, and with the newest
	$(call say,Versions of Jupyter: $(VERSIONS))
	@$(BIN)/python scripts/versions.py $(VERSIONS)

.PHONY: soak
soak: versions ## Run the tests that take minutes: long cells, every fault with every backend, long searches
	@$(BIN)/python -m pytest $(TESTS) -m "soak or hypothesis" --hypothesis-profile=soak -n $(WORKERS) --timeout 1800 --junitxml=reports/soak.xml

.PHONY: bench
bench: $(VENV)/.all ## Run the benchmarks, each next to its floor
	@$(BIN)/python benchmarks/run.py

.PHONY: docs
docs: $(VENV)/.all ## Build the documentation, into site/
	@# The theme's announcements about its own future are left out.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: pictures
pictures: $(VENV)/.all $(VENV)/.panel ## Take the documentation's pictures of JupyterLab again
	@$(BIN)/python scripts/docs/pictures.py

.PHONY: clean
clean: ## Remove everything that make has created
	@rm -rf $(VENV) $(VENV)-* build dist lib node_modules site reports playground tk_ai_extension/labextension
	@rm -rf .hypothesis .import_linter_cache .pytest_cache .ruff_cache .schemathesis test-results
