# Every command sets up what it needs. `make demo` and `make test` work on a bare clone.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check format bench web docs clean

help:
	@echo "make demo    a small training, watched (about 20 s)"
	@echo "make test    every test"
	@echo "make check   format, lint, types, layers, sizes"
	@echo "make bench   our costs beside the peers', printed as ratios"
	@echo "make web     build the page (needs Node)"
	@echo "make docs    regenerate the parts of the docs that are printed by the program"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Epochal needs Python 3.10 or newer; none was found on PATH."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(VENV)/.base
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev torch
	@touch $@

demo: $(VENV)/.base
	$(BIN)/epochal demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/sizes.py

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.dev
	$(BIN)/python tools/commands_page.py

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) .bench build dist
