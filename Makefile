# Each target does its own set-up: a virtual environment in .venv, made from pyproject.toml alone.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint slow docs browser newcomer clean

demo: $(VENV)/.base
	$(BIN)/python -m legalsat.demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

browser: $(VENV)/.browser
	$(BIN)/python -m pytest -q -m site tests/test_site.py tests/test_show_html.py tests/test_sweep_report.py

newcomer:
	$(PYTHON) -m bench.newcomer

clean:
	rm -rf $(VENV) build/site

$(VENV)/.venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "LegalSAT needs Python 3.11 or later; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.base: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[triton]'
	touch $@

$(VENV)/.dev: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ $(VENV)/.base

$(VENV)/.docs: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@ $(VENV)/.base

$(VENV)/.browser: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[browser]'
	touch $@ $(VENV)/.base $(VENV)/.dev $(VENV)/.docs
