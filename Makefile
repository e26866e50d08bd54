# make demo        open the quickstart in JupyterLab (ARGS=--no-browser passes arguments on)
# make test        everything: lint, format, types, all tests, those in a real browser too
# make check       the quick part, for every day: no browser
# make test-long   the laws of the engine on 100,000 generated permission lists, and of paths on 5,000 spellings each
# make bench       the figures, against the peers where there are some (ARGS=--quick for a first look)
# make clean       remove .venv, .venvs and what was built
#
# PYTHON=/path/to/python3 and CHROMIUM=/path/to/chromium choose others than the first ones found.

BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
PYTHON ?=
CHROMIUM ?=
ARGS ?=
# Not the whole folder: a notebook of one's own beside ours is nobody's business.
LINTED := agentperm_nb benchmarks docs notebooks/airline.py $(wildcard notebooks/0[0-9]_*.ipynb) tests

# Prints the first Python that is new enough and can make a virtual environment.
find_python = for python in "$(PYTHON)" python3.14 python3.13 python3.12 python3.11 python3; do \
	[ -n "$$python" ] || continue; \
	"$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$python" && break; \
	[ "$$python" = "$(PYTHON)" ] && break; \
	done

# Prints the first Chromium.
find_chromium = for chromium in "$(CHROMIUM)" chromium chromium-browser google-chrome google-chrome-stable; do \
	[ -n "$$chromium" ] || continue; \
	command -v "$$chromium" && break; \
	[ "$$chromium" = "$(CHROMIUM)" ] && break; \
	done

.PHONY: help demo test test-long check bench clean lint kernels chromium

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

.venv/bin/python:
	@python=$$($(find_python)); \
	if [ -z "$$python" ]; then \
		echo "There is no Python 3.11 or newer that can make a virtual environment$(if $(PYTHON), at PYTHON=$(PYTHON))." >&2; \
		echo "Fix: install one (on Debian: apt-get install python3 python3-venv), or say where it is: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi; \
	echo "Making .venv with $$("$$python" --version) ..."; \
	"$$python" -m venv .venv

# The stamps are newer than pyproject.toml as long as what it asks for is installed.
.venv/.demo: pyproject.toml | .venv/bin/python
	@echo "Installing agentperm_nb and JupyterLab into .venv (a minute or two) ..."
	@$(PIP) install --editable '.[demo]'
	@touch $@

.venv/.dev: pyproject.toml | .venv/bin/python
	@echo "Installing agentperm_nb and what its tests need into .venv (a few minutes) ..."
	@$(PIP) install --editable '.[demo,dev]'
	@touch .venv/.demo $@

.venv/.bench: pyproject.toml | .venv/bin/python
	@echo "Installing agentperm_nb and what it is measured against into .venv ..."
	@$(PIP) install --editable '.[bench]'
	@touch $@

# The whole repository is served, so that the notebooks' links to the docs work, and the address names the notebook, so that
# it opens with --no-browser too. JupyterLab refuses to start as root unless it is told to.
demo: .venv/.demo
	@root=; [ "$$(id -u)" != 0 ] || root=--allow-root; \
	$(BIN)/jupyter-lab $$root --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks/01_quickstart.ipynb $(ARGS)

lint: .venv/.dev
	@echo "Lint, format, types ..."
	@$(BIN)/ruff check --quiet $(LINTED)
	@$(BIN)/ruff format --check --quiet $(LINTED) || { $(BIN)/ruff format --check $(LINTED); echo "Fix: $(BIN)/ruff format $(LINTED)" >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary

# A second environment, with an older kernel, which the tests run notebooks in too.
kernels: .venv/.dev
	@[ -d .venvs ] || echo "Making .venvs for the other kernel of the tests ..."
	@$(BIN)/python tests/kernels.py >/dev/null

chromium:
	@[ -n "$$($(find_chromium))" ] && exit 0; \
	if [ -z "$(CHROMIUM)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing Chromium ..."; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null; \
	fi; \
	if [ -z "$$($(find_chromium))" ]; then \
		echo "The browser tests need Chromium, and none was found$(if $(CHROMIUM), at CHROMIUM=$(CHROMIUM), on the PATH)." >&2; \
		echo "Fix: install it (on Debian: apt-get install chromium), or say where it is: make CHROMIUM=/path/to/chromium $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi

test: chromium lint kernels
	@CHROMIUM=$$($(find_chromium)); export CHROMIUM; \
	echo "All tests, with $$CHROMIUM ..."; \
	$(BIN)/python -m pytest $(ARGS)

check: lint kernels
	@echo "Tests without a browser ..."; \
	$(BIN)/python -m pytest -m "not browser" $(ARGS)

test-long: .venv/.dev
	@echo "The laws, on 100,000 generated permission lists and many spellings of paths (15 minutes of processor time) ..."; \
	AGENTPERM_LAW_EXAMPLES=100000 AGENTPERM_PATH_EXAMPLES=5000 \
		$(BIN)/python -m pytest tests/test_laws.py tests/permissions/matching/test_path_laws.py $(ARGS)

bench: .venv/.bench
	@status=0; \
	for file in benchmarks/[!_]*.py; do \
		name=$$(basename $$file .py); \
		[ $$name = report ] && continue; \
		echo "benchmarks.$$name"; \
		$(BIN)/python -m benchmarks.$$name $(ARGS) || status=1; \
	done; \
	exit $$status

clean:
	@rm -rf .venv .venvs dist build test-artifacts .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "Removed .venv, .venvs and what was built."
