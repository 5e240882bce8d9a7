# Every target sets itself up: a virtual environment in .venv and what it needs in it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt
# Side by side, with a thread each: more would wait for one another.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

.PHONY: demo test test-slow faults fuzz check static format clean help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.installed  ## prepare, train, translate and evaluate the built-in corpus (5 minutes on two cores)
	$(BIN)/manyglot demo

test: $(VENV)/.installed-dev  ## the tests (seven to nine minutes on two cores)
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.installed-dev  ## all tests, the slow ones too
	$(PYTEST) --dist load

faults: $(VENV)/.installed-dev  ## make each file operation of each command fail (twelve minutes on two cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults

fuzz: $(VENV)/.installed-dev  ## damage files of every kind in 20,000 ways (five minutes on two cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --mutations 20000

check: static test  ## what CI runs: format, lint, types, tests

static: $(VENV)/.installed-dev  ## format, lint and types, without changing a file
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev  ## write the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the virtual environment and the caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("manyglot needs Python 3.11 or newer; set PYTHON=python3.12, say" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.installed
