# Every command sets up what it needs. `make demo` and `make test` work on a bare clone.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
# Tests start hundreds of processes, and each of them would compile Epochal again.
unexport PYTHONDONTWRITEBYTECODE
# They also wait for processes, so there are more workers than cores.
WORKERS = $(shell $(BIN)/python -c "import os; print(os.cpu_count() * 3 // 2)")

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-frameworks test-hub test-lowest rule-check check check-web format format-web bench web docs site clean FORCE

help:
	@echo "make demo        a small training, live in the browser (half a minute); ARGS=--open opens it"
	@echo "make test        every test"
	@echo "make test-fast   the quick tests, in about a minute and a half on two cores"
	@echo "make test-frameworks   integrations with further real frameworks; NAME=optuna for one"
	@echo "make test-hub    drills of hubs over PostgreSQL under Patroni and Swift; SEED=1 SECONDS=600 MINUTES=20"
	@echo "make test-lowest the quick tests without torch, with the oldest versions of the dependencies"
	@echo "make rule-check  what the health rules find in recorded trainings; NAME=dead-layer for one"
	@echo "make check       format, lint, types, layers, sizes"
	@echo "make format      format the files, and fix what the linters can fix"
	@echo "make bench       measure costs compared with other trackers"
	@echo "make web         build the page (needs Node)"
	@echo "make docs        write the parts of pages that the program says about itself"
	@echo "make site        build the documentation into site/"

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

# Headless Chromium for the browser tests; where it cannot be had, those tests say so and are skipped.
$(VENV)/.browser: | $(BIN)/python
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
		|| { command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
		|| echo "no Chromium found or installable: browser tests will be skipped"
	@touch $@

web/node_modules/.installed: web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

web/dist/index.html: web/node_modules/.installed FORCE
	cd web && npm run --silent build

FORCE:

demo: $(VENV)/.base
	$(BIN)/epochal demo $(ARGS)

test: $(VENV)/.dev $(VENV)/.browser
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow' $(ARGS)

# An environment for each under .frameworks/; the results are written into docs/how-to/integrations.md.
test-frameworks: $(VENV)/.dev
	$(BIN)/python tools/frameworks.py $(NAME)

# Kills servers, hubs and senders at random for so many seconds, then sends a hundred runs for so many
# minutes; docs/development/drills.md has the results.
HUB_PACKAGES = patroni etcd-server etcd-client postgresql swift-proxy swift-account swift-container \
	swift-object memcached
SEED = 1
SECONDS = 600
MINUTES = 20

test-hub: $(VENV)/.dev
	@dpkg -s $(HUB_PACKAGES) >/dev/null 2>&1 \
		|| { command -v apt-get >/dev/null && apt-get update -qq \
		&& apt-get install -y -qq --no-install-recommends $(HUB_PACKAGES) >/dev/null; } \
		|| echo "could not install all of: $(HUB_PACKAGES)"
	$(BIN)/python -m tests.drills.drill --seed $(SEED) --seconds $(SECONDS)
	$(BIN)/python -m tests.drills.soak --minutes $(MINUTES)

$(VENV)/lowest/.installed: pyproject.toml constraints-lowest.txt | $(BIN)/python
	$(BIN)/python -m venv $(VENV)/lowest
	$(VENV)/lowest/bin/python -m pip install --quiet --upgrade pip
	$(VENV)/lowest/bin/python -m pip install --quiet --constraint constraints-lowest.txt --editable . \
		hypothesis pytest pytest-timeout pytest-xdist
	@touch $@

LOWEST_TESTS = tests/exports tests/health tests/journal tests/records tests/run tests/journal/segments \
	tests/series tests/settings tests/server tests/store tests/cli/tui

test-lowest: $(VENV)/lowest/.installed
	$(VENV)/lowest/bin/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow' \
		$(LOWEST_TESTS) $(ARGS)

# Replays the journals of tests/reference/clinic.
rule-check: $(VENV)/.dev
	$(BIN)/python -m benchmarks.clinic.rule_check $(NAME)

check: $(VENV)/.dev
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . \
		|| { echo "run 'make format', and fix what it leaves"; exit 1; }
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --no-warn-unreachable --cache-dir .mypy_cache/darwin src
	$(BIN)/lint-imports
	$(BIN)/python tools/wire.py --check
	$(BIN)/python -m tools.generated --check
	$(BIN)/python tools/budget.py
	$(BIN)/python tools/frameworks.py --check
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory check-web; \
		else echo "no npm: the page was not rebuilt to see whether it is fresh"; fi

check-web: web/dist/index.html $(VENV)/.base
	@cd web && npm run --silent check || { echo "run 'make format', and fix what it leaves"; exit 1; }
	$(BIN)/python tools/page_size.py
	cd web && npm run --silent test
	@cmp web/dist/index.html src/epochal/server/index.html \
		|| { echo "the committed page is stale: run 'make web' and commit it"; exit 1; }

web: $(VENV)/.base
	$(BIN)/python tools/wire.py
	$(MAKE) --no-print-directory web/dist/index.html
	cp web/dist/index.html src/epochal/server/index.html

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory format-web; \
		else echo "no npm: the page was not formatted"; fi

format-web: web/node_modules/.installed
	cd web && npm run --silent format

docs: $(VENV)/.dev
	$(BIN)/python -m tools.generated

$(VENV)/.docs: pyproject.toml constraints.txt $(VENV)/.base
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	@touch $@

site: $(VENV)/.docs
	$(BIN)/python tools/site.py

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) .bench .frameworks build dist site
