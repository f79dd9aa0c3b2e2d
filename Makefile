# Every target makes its own environment: `make demo` and `make test` are all the set-up there is.
# `make test ARGS="-k schema -x"` hands arguments on to pytest.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
ECOSYSTEM := .venv-ecosystem
BIN := $(VENV)/bin
WORKERS ?= $(shell $(BIN)/python -m tests.workers)
ARGS ?=
SOAK_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help demo demo-lm quick mutants test test-whole test-ops test-compiled test-settings test-gpu test-ecosystem soak parity bench bench-gpu bench-sizes docs types dist lint \
	format generate spec check check-whole clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.has-demo  ## train a classifier on real images with ops registered through oplib
	$(BIN)/python examples/digits/train.py $(ARGS)

demo-lm: $(VENV)/.has-lm  ## train a GPT on characters, on eight devices of the CPU; once more goes on from its checkpoint
	$(BIN)/python examples/lm/train_gpt.py --mesh data=4,model=2 --fsdp --steps 300 --save-every 100 $(ARGS)

quick: $(VENV)/.has-test  ## check the changed files: ruff, pyright, and the tests that mirror them
	$(BIN)/python -m tests.quick $(ARGS)

mutants: $(VENV)/.has-test  ## count the mistakes that quick tests find: make mutants ARGS="oplib/library --count 50"
	$(BIN)/python -m tests.mutants $(ARGS)

test: $(VENV)/.has-test  ## run tests, docstring examples, README code and the floors contract; not the slow ones
	@echo "$(WORKERS) workers: one for each core and 3 GB of memory (make test WORKERS=1 takes one)."
	@echo "Slow tests and most cells of large matrices are left out; make test-whole runs all of them."
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not undrawn" $(ARGS)

test-whole: $(VENV)/.has-test  ## run all tests, the slow ones too (an hour and more on two cores)
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

test-ops: $(VENV)/.has-test $(VENV)/.has-parity  ## run every check on every sample of every built-in op, and record it
	rm -f out/op_grid.json
	OPLIB_OPS_SAMPLES=all $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -p tests.builtin.grid.recording \
		tests/builtin tests/parity/test_op_grid.py tests/parity/test_op_forms.py tests/parity/test_opinfo.py $(ARGS)

test-compiled: $(VENV)/.has-test $(VENV)/.has-parity  ## run the tests of the tape with compiled autograd on for every backward
	OPLIB_COMPILED_AUTOGRAD=1 $(BIN)/python -m pytest -n $(WORKERS) tests/autograd tests/tensor tests/transforms \
		tests/parity $(ARGS)

# In ten minutes about 4,000 random programs, spread over the nine tests that run them, and 3,000 compiled ones. Each
# run draws other programs, and prints its seed.
soak: $(VENV)/.has-test $(VENV)/.has-parity  ## for SOAK_SECONDS: interrupts, threads, processes, bad values, random programs
	OPLIB_SOAK_SECONDS=$(SOAK_SECONDS) RANDOM_GRAPHS=$$(($(SOAK_SECONDS) * 4000 / 600 / 9 + 1)) \
		OPLIB_TEST_SEED=$${OPLIB_TEST_SEED:-$$(date +%s)} \
		$(BIN)/python -m pytest -n $(WORKERS) tests/soak tests/autograd/test_random_graphs.py \
		tests/parity/test_random_programs.py $(ARGS)

# JAX before 0.12 has no such settings: make test-settings VENV=.venv-newest
test-settings: $(VENV)/.has-test  ## run the tests of policies and of linearity with coming settings of JAX
	JAX_REMAT3=1 JAX_CUSTOM_VJP3=1 JAX_CUSTOM_JVP3=1 $(BIN)/python -m pytest \
		tests/library/jax_primitives/test_attachment.py tests/library/derivatives/test_linearity.py $(ARGS)

test-ecosystem: $(ECOSYSTEM)/.has-packages  ## use ops in flax, equinox, optax, diffrax, lineax, ott and six more libraries
	@if $(ECOSYSTEM)/bin/python -c 'import hypothesis, jax, pytest, xdist'; then \
		$(ECOSYSTEM)/bin/python -m pytest -n $(WORKERS) tests/ecosystem $(ARGS); \
	else echo "tests/ecosystem: skipped, since pytest could not be installed"; fi

parity: $(VENV)/.has-test $(VENV)/.has-parity  ## run the same programs on torch and compare
	$(BIN)/python -m pytest -n $(WORKERS) tests/parity $(ARGS)

bench: $(VENV)/.has-bench  ## print the table of costs
	$(BIN)/python -m benchmarks $(ARGS)

test-gpu: $(VENV)/.has-test  ## run every built-in op, the kernels and the transforms on a GPU, against the CPU
	$(BIN)/python -m tools.on_accelerator tests $(ARGS)

bench-sizes: $(VENV)/.has-bench  ## measure built-in ops at the sizes of real programs, beside torch and plain JAX
	$(BIN)/python -m benchmarks --only sizes $(ARGS)

bench-gpu: $(VENV)/.has-bench  ## measure on a GPU, and write the tables into benchmarks/results
	$(BIN)/python -m tools.on_accelerator benchmarks $(ARGS)

lint: $(VENV)/.has-test  ## check style, format, types and floors
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(VENV)/.has-test  ## format, and mend what can be mended
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

generate: $(VENV)/.has-test  ## write the stubs, the page of the built-in ops and the picture of the README
	$(BIN)/python -m tools

spec: $(BIN)/python  ## write docs/inside/spec_status.md: the specification's rows and their tests
	$(BIN)/python -m tests.spec_status

docs: $(VENV)/.has-docs spec  ## build the site in out/site; a broken link or reference fails
	rm -rf out/site out/doctrees
	$(BIN)/python -m sphinx --fail-on-warning --quiet --conf-dir docs --doctree-dir out/doctrees . out/site
	echo '<meta http-equiv="refresh" content="0; url=docs/index.html">' > out/site/index.html

types: $(VENV)/.has-test $(VENV)/.has-types  ## check programs with mypy --strict and pyright
	$(BIN)/python -m pytest tests/test_types.py tests/test_types_of_ops.py $(ARGS)

dist: $(VENV)/.has-dist  ## build sdist and wheel, and try them in fresh environments
	$(BIN)/python -m tests.distribution $$(.ci/find_python 3.11) $$(.ci/find_python 3.13 3.12)

check: lint test  ## everything a change must pass

check-whole:  ## .ci/run without its draw: all slow tests, and all tests in each lane (90 minutes)
	.ci/run --whole

clean:  ## remove environments, caches and what was written
	rm -rf .venv* .hypothesis .import_linter_cache .pytest_cache .ruff_cache build dist out *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "No Python of 3.11 or newer on PATH. Name one: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamp is left out where a package is missing, so that the next run tries again.
$(ECOSYSTEM)/.has-packages: pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python of 3.11 or newer on PATH. Name one: make PYTHON=/path/to/python"; exit 1; }
	@test -x $(ECOSYSTEM)/bin/python || $(PYTHON) -m venv $(ECOSYSTEM)
	@echo "Installing oplib[ecosystem] into $(ECOSYSTEM) ..."
	@$(ECOSYSTEM)/bin/python -m tests.ecosystem.installation

# One stamp for each extra: installed again only when pyproject.toml has changed.
$(VENV)/.has-%: pyproject.toml | $(BIN)/python
	@echo "Installing oplib[$*] into $(VENV) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
