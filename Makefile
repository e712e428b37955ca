# make demo   the main job on real text, in a fresh environment
# make test   the whole suite, in the same environment
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 2

# Compiled programs are kept between runs and shared by parallel test workers.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.2

# XLA's CPU backend takes the memory for a step's intermediate arrays anew each time. glibc then
# keeps it, in huge pages, instead of returning it: a quarter of a T6 training step.
demo bench: export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.arena_max=1

.PHONY: demo test lint format bench notebooks setup clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed, this is " + sys.version'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/python -m experiments.launch --config=configs/t6.py:demo --workdir=runs/t6-demo

test: $(STAMP)
	$(BIN)/python -m pytest -q -n $(JOBS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m experiments.benchmarks.decode --out=runs/bench-decode
	$(BIN)/python -m experiments.benchmarks.train_step --out=runs/bench-train-step
	$(BIN)/python -m experiments.benchmarks.strassen --out=runs/bench-strassen

notebooks: $(STAMP)
	$(BIN)/python -m pytest -q tests/test_notebooks.py

clean:
	rm -rf $(VENV) .cache build dist *.egg-info
