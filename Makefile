# One door per chore. Everything happens in a virtual environment of its own (.venv); nothing else is touched.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SAN    := build/sanitize
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
SETTING = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))$(1), sep="\n")' > $(2)

NATIVE := pyproject.toml CMakeLists.txt $(wildcard cpp/*.* cpp/simd/*)
SOURCE := $(NATIVE) README.md $(shell find src -name '*.py' -o -name '*.pyi' -o -name '*.rules' -o -name '*.tsv')
STUB   := src/bridle/_native.pyi

.PHONY: help demo test test-fast check lint types stub stub-check test-tiers sanitize bench soak fuzz docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      references in styles that the tagger has never seen, without and with rules; a report in HTML"
	@echo "make test      all tests"
	@echo "make test-fast   all but the slow ones, which take more than a second each"
	@echo "make check     ruff, mypy --strict, the stub of the kernels, all tiers of vector instructions, ASan and UBSan"
	@echo "make test-tiers  what drives the kernels, on every tier of vector instructions that this machine has"
	@echo "make bench     Bridle against its peers: table, JSON and plots in benchmarks/out (BENCH=--quick: a minute)"
	@echo "make soak      200,000 random problems against enumeration (SOAK='--problems 1000000'; it goes on where it was stopped)"
	@echo "make fuzz      50,000 damaged files of every format, read in watched processes (FUZZ='--files 2000 --jobs 2 --seed 0 --only arrow')"
	@echo "make docs      tutorials, rules, how it works, API: HTML in docs/_build/html"
	@echo "make stub      write $(STUB) anew, after a change of cpp/bindings.cpp"
	@echo "make clean     remove .venv, build and caches"

demo: $(VENV)/.installed
	@$(BIN)/bridle demo

test: $(VENV)/.test
	$(BIN)/python -m pytest $(TESTS)

test-fast: $(VENV)/.test
	$(BIN)/python -m pytest -m "not slow" $(TESTS)

# ---- the environment ------------------------------------------------------------------------------------------------

# What cannot come from PyPI: a Python that is new enough and a compiler that knows C++20.
define TOOLS
@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
  echo "bridle: there is no '$(PYTHON)'; install CPython 3.11 or newer, or say which one: make PYTHON=/path/to/python" >&2; exit 1; }
@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "bridle: '$(PYTHON)' is too old ($$("$(PYTHON)" --version 2>&1)); Bridle needs CPython 3.11 or newer: make PYTHON=python3.11" >&2; exit 1; }
@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
  echo "bridle: '$(PYTHON)' cannot make virtual environments; install its venv and pip packages (Debian: python3-venv)" >&2; exit 1; }
@for compiler in "$$CXX" c++ g++ clang++; do \
  [ -n "$$compiler" ] && printf '#include <vector>\nint main() {}\n' \
    | $$compiler -std=c++20 -x c++ -fsyntax-only - >/dev/null 2>&1 && exit 0; done; \
  echo "bridle: there is no C++ compiler that knows C++20; install g++ 10 or newer (Debian: g++), or set CXX" >&2; exit 1
endef

# The build requirements stand in the environment itself, so that a second build compiles only what has changed.
$(VENV)/.tools: pyproject.toml
	$(TOOLS)
	@echo "bridle: making $(VENV)"
	@rm -rf $(VENV) && "$(PYTHON)" -m venv $(VENV)
	@$(call SETTING,["build-system"]["requires"],$(VENV)/build.txt)
	@$(INSTALL) -r $(VENV)/build.txt cmake ninja
	@touch $@

$(VENV)/.installed: $(VENV)/.tools $(SOURCE)
	@echo "bridle: building and installing (the first time takes a minute or two)"
	@$(INSTALL) --no-build-isolation .
	@touch $@

# What else a chore needs: make test, make check, make bench, make docs.
$(VENV)/.test $(VENV)/.check $(VENV)/.bench $(VENV)/.docs: $(VENV)/.%: $(VENV)/.installed
	@$(call SETTING,["project"]["optional-dependencies"]["$*"],$(VENV)/$*.txt)
	@$(INSTALL) -r $(VENV)/$*.txt
	@touch $@

# ---- checks ---------------------------------------------------------------------------------------------------------

check: lint types stub-check test-tiers sanitize

lint: $(VENV)/.check
	$(BIN)/ruff check .

types: $(VENV)/.check $(VENV)/.test
	$(BIN)/mypy

stub: $(VENV)/.check
	$(BIN)/python -m nanobind.stubgen -q -m bridle._native -o $(STUB)

stub-check: $(VENV)/.check $(VENV)/.test
	$(BIN)/python -m pytest tests/test_structure.py -k stub

# The contract, the tests that drive the kernels, and models as a whole, once per tier of vector instructions; but for the best
# tier, with which `make test` runs.
KERNEL_TESTS := $(addprefix tests/test_,processor.py lattice_padded.py spans.py decoding_decoder.py decoding_outcomes.py \
  decoding_threads.py engines.py features.py models_lbfgs.py learn_deterministic.py rules_compiled.py) \
  $(wildcard tests/test_kernels_*.py)
TIER_TESTS := $(sort $(KERNEL_TESTS) $(wildcard tests/test_models_*.py))
test-tiers: $(VENV)/.test
	@for tier in $$($(BIN)/python -c 'import bridle; print(*bridle.simd().available[:-1])'); do \
	  echo "BRIDLE_SIMD=$$tier"; export BRIDLE_SIMD=$$tier; \
	  $(BIN)/python tests/soak.py --problems 500 && $(BIN)/python -m pytest -m "not slow" $(TIER_TESTS) || exit 1; done

# A second build of the kernels, 600 problems of the contract, and the other tests that drive the kernels: on the best tier and
# on AVX2.
# (Python itself is not instrumented: libasan must be loaded before it, and what the interpreter never frees is no leak of
# ours.)
SAN_RUN = LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=$(SAN)/package $(BIN)/python
sanitize: $(VENV)/.check $(VENV)/.test
	@$(BIN)/cmake -S . -B $(SAN) -G Ninja -DCMAKE_BUILD_TYPE=Release -DBRIDLE_SANITIZE=ON \
	  -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" --log-level=WARNING
	@$(BIN)/cmake --build $(SAN)
	@rm -rf $(SAN)/package && mkdir -p $(SAN)/package && cp -R src/bridle $(SAN)/package/
	@rm -f $(SAN)/package/bridle/_native*.so && cp $(SAN)/_native*.so $(SAN)/package/bridle/
	$(SAN_RUN) tests/soak.py --problems 600
	$(SAN_RUN) -m pytest -p no:cacheprovider -m "not slow" $(KERNEL_TESTS)
	@! $(BIN)/python -c 'import bridle, sys; sys.exit("avx512" not in bridle.simd().available)' || { \
	  echo "BRIDLE_SIMD=avx2"; export BRIDLE_SIMD=avx2; \
	  $(SAN_RUN) tests/soak.py --problems 200 && $(SAN_RUN) -m pytest -p no:cacheprovider -m "not slow" $(KERNEL_TESTS); }

# ---- proofs that take longer ----------------------------------------------------------------------------------------

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py $(BENCH)

soak: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python tests/soak.py --tiers all --log build/soak.jsonl $(SOAK)

# Files that are damaged by chance: none may crash, hang, fill the memory or raise what is no BridleError.
fuzz: $(VENV)/.test
	$(BIN)/python tests/fuzz.py $(FUZZ)

# Warnings are errors. Pages of rules are made from the library, so that they go anew with every build.
docs: $(VENV)/.docs
	@rm -rf docs/_build docs/rules/generated
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@echo "bridle: open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) build dist docs/_build docs/rules/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
