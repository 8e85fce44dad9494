# Everything that is done with this project. `make` alone lists it.
#
# What is large and can be shared by clones lies outside of them, in FOREBAY_CACHE: one target folder for cargo, one
# virtual environment (.venv is a link to it), the wheels, the photos of demo and benchmarks.

FOREBAY_CACHE ?= $(HOME)/.cache/forebay
PYTHON ?= python3
MINUTES ?= 10
ARGS ?=

VENV := $(FOREBAY_CACHE)/venv
BENCH_VENV := $(FOREBAY_CACHE)/bench-venv

export FOREBAY_CACHE PYTHON
export CARGO_TARGET_DIR := $(FOREBAY_CACHE)/target
# cmake, which libjpeg-turbo is built with, comes from the environment and needs no root.
export PATH := $(VENV)/bin:$(PATH)
unexport PYTHONPATH PYTHONHOME

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Recipes use all cores themselves, and share cargo's target folder and the environment.
.NOTPARALLEL:
.PHONY: help setup setup-test demo test lint deny bench doc wheel soak clean

SETUP := scripts/setup.sh "$(VENV)" requirements/build.txt
RUN := scripts/run.sh "$(VENV)"
PYTHON_SOURCES := python demo benches examples

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: .venv ## check the tools, make .venv and install Forebay there
	@$(SETUP)
	@echo "setup: .venv holds Forebay of this clone" >&2

setup-test: .venv
	@$(SETUP) requirements/test.txt

.venv: FORCE
	@if [ -e .venv ] && [ ! -L .venv ]; then \
		echo "setup: .venv is a folder, not a link: move it away; make links it to $(VENV)" >&2; exit 1; fi
	@[ "$$(readlink .venv)" = "$(VENV)" ] || ln -sfn "$(VENV)" .venv

FORCE:

demo: setup ## load photos, compare with Pillow, prove determinism and resume (a minute; ARGS: demo/run.py)
	@mkdir -p target
	@$(RUN) python demo/run.py --photos "$(FOREBAY_CACHE)/demo-photos" --chart target/forebay-demo.png $(ARGS)

test: setup-test ## run all tests: Rust, Python, README and examples (ARGS: pytest)
	@if cargo nextest --version >/dev/null 2>&1; then \
		cargo nextest run --locked --workspace --exclude forebay-python; \
		cargo test --locked --workspace --exclude forebay-python --doc; \
	else \
		cargo test --locked --workspace --exclude forebay-python; \
	fi
	@$(RUN) python -m pytest $(ARGS)

lint: setup-test deny ## check format, lints, types, stubs and licences
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	$(RUN) ruff check $(PYTHON_SOURCES)
	$(RUN) ruff format --check $(PYTHON_SOURCES)
	$(RUN) mypy --strict python/forebay
	$(RUN) python -m mypy.stubtest forebay._native --mypy-config-file pyproject.toml

deny: ## check licences, sources and advisories of dependencies (DENY=1 builds cargo-deny if it is missing)
	@if ! cargo deny --version >/dev/null 2>&1; then \
		if [ "$(DENY)" != 1 ]; then \
			echo "deny: SKIPPED: cargo-deny is not installed; 'make deny DENY=1' builds it, which takes minutes"; exit 0; fi; \
		echo "deny: building cargo-deny, which takes minutes"; \
		cargo install --locked cargo-deny; \
	fi; \
	cargo deny --locked check licenses bans sources; \
	if cargo deny fetch db >/dev/null 2>&1; then cargo deny --locked check --disable-fetch advisories; \
	else echo "deny: advisories SKIPPED: their database cannot be reached"; fi

bench: setup ## compare image loaders (a quarter of an hour; ARGS: benches/images/run.py)
	@scripts/setup.sh "$(BENCH_VENV)" benches/images/requirements.txt
	cargo build --locked --release -p forebay-engine --example floor
	@FOREBAY_FLOOR="$(CARGO_TARGET_DIR)/release/examples/floor" scripts/run.sh "$(BENCH_VENV)" \
		python benches/images/run.py --data "$(FOREBAY_CACHE)/bench-photos" --out benches/images/results $(ARGS)

doc: setup ## write the API documentation of Rust and Python into site/
	@$(SETUP) requirements/doc.txt
	cargo doc --locked --workspace --no-deps
	@mkdir -p site && rm -rf site/rust && cp -r "$(CARGO_TARGET_DIR)/doc" site/rust
	$(RUN) pdoc --output-directory site/python forebay '!forebay._native'
	@echo "doc: site/python/index.html, site/rust/forebay_engine/index.html; the guide is docs/guide"

# zig links against the symbols of an older glibc, so that the wheel runs on Linux from 2014 on, whatever this one is.
wheel: setup ## build a wheel for any Linux (manylinux2014) and Python 3.9 or later into dist/
	@$(SETUP) requirements/wheel.txt
	maturin build --release --locked --zig --compatibility manylinux2014 --out dist

soak: setup-test ## run the loader under faults for MINUTES (10)
	@$(RUN) python python/tests/soak.py --minutes $(MINUTES) $(ARGS)

clean: ## remove what was made in this clone; the shared FOREBAY_CACHE stays
	@rm -rf target dist site .pytest_cache .mypy_cache .ruff_cache
	@if [ -L .venv ]; then rm .venv; fi
	@find python demo benches examples -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean: kept $(FOREBAY_CACHE), which other clones may share; remove it by hand to start from nothing"
