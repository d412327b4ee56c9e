# Everything runs in .venv, which each target fills with what it needs. Needed on the machine:
# Python 3.11 or newer, make and git.
#
#   make lab PORT=9000          another port than a free one
#   make test PYTHON=python3.12 another Python (for a new .venv)
#   make test TESTS=tests/kernels

.DEFAULT_GOAL := help

PYTHON  ?= python3
WORKERS ?= 2
TESTS   ?= tests

VENV := .venv
BIN  := $(VENV)/bin
# Warnings are left out: an index that lacks one of several mirrors is no news to anybody.
PIP  := $(BIN)/python -m pip install --disable-pip-version-check --no-input -qq

# Pyright runs as installed; it need not ask a registry whether there is a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

say = @echo "== $(1)"

.PHONY: help
help: ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

# -- set up ----------------------------------------------------------------------------------------
# A stamp is newer than what it was made from, or its recipe runs again.

$(VENV)/.made:
	$(call say,Making $(VENV) with $(PYTHON))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed, and $(PYTHON) is older or missing: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) cannot make environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.lab: pyproject.toml $(VENV)/.made
	$(call say,Installing the extension with JupyterLab (about a minute))
	@$(PIP) -e '.[lab,collab]'
	@touch $@

$(VENV)/.all: pyproject.toml $(VENV)/.made
	$(call say,Installing the extension with what its tests and linters need (about two minutes))
	@$(PIP) -e '.[lab,collab,test,docs,dev]'
	@$(BIN)/python -m bash_kernel.install --sys-prefix >/dev/null
	@touch $@ $(VENV)/.lab

.PHONY: setup
setup: $(VENV)/.all ## .venv with everything

# -- use -------------------------------------------------------------------------------------------

.PHONY: lab
lab: $(VENV)/.lab ## JupyterLab with the extension on an example notebook, and how to connect an agent
	@$(BIN)/python scripts/lab.py $(if $(PORT),--port $(PORT))

.PHONY: demo
demo: $(VENV)/.lab ## an agent's work in a real notebook, in a terminal
	@$(BIN)/python scripts/demo.py

# -- check -----------------------------------------------------------------------------------------

.PHONY: lint
lint: $(VENV)/.all ## ruff, import-linter, pyright
	$(call say,ruff check)
	@$(BIN)/ruff check --quiet --output-format concise
	$(call say,ruff format --check)
	@$(BIN)/ruff format --check --quiet
	$(call say,lint-imports)
	@$(BIN)/lint-imports --no-logo
	$(call say,pyright)
	@$(BIN)/pyright --pythonpath $(BIN)/python

.PHONY: format
format: $(VENV)/.all ## what ruff can mend by itself
	@$(BIN)/ruff check --fix --quiet --output-format concise
	@$(BIN)/ruff format

.PHONY: test
test: lint ## every linter and test
	$(call say,pytest)
	@$(BIN)/python -m pytest $(TESTS) -n $(WORKERS) --dist worksteal --junitxml=reports/junit.xml

.PHONY: soak
soak: $(VENV)/.all ## the tests that take minutes: long cells, every fault with every backend
	@$(BIN)/python -m pytest $(TESTS) -m soak -n $(WORKERS) --timeout 1800 --junitxml=reports/soak.xml

.PHONY: bench
bench: $(VENV)/.all ## the benchmarks, each beside its floor
	@$(BIN)/python benchmarks/run.py

.PHONY: docs
docs: $(VENV)/.all ## the documentation, into site/
	@# The theme's news about its own future are left out.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: clean
clean: ## away with everything that make made
	@rm -rf $(VENV) build dist site reports playground .hypothesis .import_linter_cache .pytest_cache .ruff_cache
