# One door per chore. Everything happens in a virtual environment of its own (.venv); nothing else is touched.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
SAN    := build/sanitize
# Versions: those of requirements/constraints.txt; make NEWEST=1 takes the newest, make OLDEST=1 the oldest that are allowed.
PINS   := requirements/$(if $(OLDEST),oldest,constraints).txt
PIP = $(BIN)/python -m pip
INSTALL = $(PIP) install --quiet --disable-pip-version-check --no-compile $(if $(NEWEST),--upgrade,-c $(PINS))
SETTING = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))$(1), sep="\n")' > $(2)

NATIVE := pyproject.toml CMakeLists.txt $(wildcard cmake/* cpp/*/*)
SOURCE := $(NATIVE) README.md $(shell find src -name '*.py' -o -name '*.pyi' -o -name '*.rules' -o -name '*.tsv' \
  -o -name '*.js' -o -name '*.css' -o -name '*.html')
STUB   := src/bridle/_native.pyi

.PHONY: help demo explore test test-fast test-integrations test-distributed test-explorer test-annotation-tools reproduce coverage check \
  prepare lint format types stub stub-check test-tiers sanitize tsan fuzz fuzz-kernels bench soak docs wheel test-wheel wheels pins \
  release-check clean
.DEFAULT_GOAL := help

help:
	@echo "make demo        label references in styles that the tagger has never seen, without and with rules; writes an HTML report"
	@echo "make explore     open a page where you write rules for references and see at once what they do (Ctrl-C ends it)"
	@echo "make test        run all tests (TESTS='tests/rules/test_rules.py': some of them)"
	@echo "make test-fast   run all tests but the slow ones, which take more than a second each"
	@echo "make test-integrations  test Bridle with the real CRFsuite, transformers, spaCy, GLiNER and the others"
	@echo "make test-distributed  kill Spark, Ray and bridle tag at work, and check that nothing is lost (Java 17; about 10 minutes)"
	@echo "make test-explorer  test the explorer in a browser (Chromium), and the HTTP service against its OpenAPI description"
	@echo "make test-annotation-tools  test Bridle with a real Label Studio and doccano (two gigabytes of packages; about two minutes)"
	@echo "make coverage    run the fast tests and measure coverage; fails below the minimum in pyproject.toml"
	@echo "make check       run lint, types, stub-check, test-tiers and sanitize"
	@echo "make lint        run ruff, clang-format, clang-tidy, codespell, the prose linter and tsc, and validate the workflows; changes nothing"
	@echo "make format      format the code with ruff and clang-format"
	@echo "make types       run mypy --strict"
	@echo "make stub        write $(STUB) again, after a change of cpp/border"
	@echo "make stub-check  check that it is up to date"
	@echo "make test-tiers  run the tests of the kernels on every tier of vector instructions that this machine has"
	@echo "make sanitize    run the kernels under ASan and UBSan"
	@echo "make prepare     make the environments and builds that the other checks need, so that they only have to run"
	@echo "make fuzz        read 50,000 damaged files of every format in limited processes (FUZZ='--files 2000 --only arrow')"
	@echo "make tsan        run the threaded code under TSan"
	@echo "make fuzz-kernels  compare the kernels with enumeration on libFuzzer's problems, under ASan and UBSan (SECONDS=60)"
	@echo "make reproduce   run an experiment of a paper: NAME=srl DATA=DIR (or BRIDLE_DATA) REPRODUCE='--quick -o docs/results'"
	@echo "make bench       compare Bridle with other solvers; writes a table, JSON and plots to benchmarks/out (BENCH=--quick: a minute)"
	@echo "make soak        compare 200,000 random problems with enumeration (SOAK='--problems 1000000'; resumes where it was stopped)"
	@echo "make docs        write the generated pages and build the documentation in docs/_build/html"
	@echo "make wheel       build the sdist and wheels in dist/, for every Python from 3.11 to 3.14 that is found (PYTHONS='...')"
	@echo "make test-wheel  install those wheels in environments without a compiler, and test them"
	@echo "make wheels      build the wheels to be published for this platform, with cibuildwheel"
	@echo "make pins        update requirements/*.txt to the newest versions of all dependencies"
	@echo "make release-check  check name, addresses, version and changelog before a release"
	@echo "make clean       remove .venv, build and caches"
	@echo "NEWEST=1 or OLDEST=1 (after make clean): use the newest or the oldest dependencies instead of the pinned ones"

demo: $(VENV)/.installed
	@$(BIN)/bridle demo

explore: $(VENV)/.serve
	@$(BIN)/bridle explore

# Two files at a time on two cores, and so on. Tests of limits of time want the machine for themselves.
PARALLEL := -n auto --dist loadfile
TIMED := $(addprefix tests/,test_deadline.py decoding/test_threads.py spans/test_selector_limits.py)
test: $(VENV)/.test
	$(BIN)/python -m pytest $(if $(TESTS),$(TESTS),$(PARALLEL) $(addprefix --ignore ,$(TIMED)))
	$(if $(TESTS),,$(BIN)/python -m pytest $(TIMED))

test-fast: $(VENV)/.test
	$(BIN)/python -m pytest -m "not slow" $(TESTS)

# An environment on top of others, which sees their packages.   $(call LAYER,folder,packages,constraints,others)
define LAYER
@rm -rf $(1) && $(BIN)/python -m venv --without-pip $(1)
@for below in $(4) $(BIN); do "$$below/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; done \
  > "$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth"
@$(PIP) --python $(1)/bin/python install --quiet --disable-pip-version-check --no-compile $(3) $(2)
@touch $(1)/.installed
endef

# Beside the real packages of others. torch is installed as pip finds it: a CPU build saves gigabytes. GLiNER wants an older
# transformers, so that it has an environment of its own.
INTEGRATIONS := $(VENV)/integrations
GLINER := $(VENV)/gliner
GLINER_TEST := tests/heavy/integrations/test_gliner.py
test-integrations: $(INTEGRATIONS)/.installed $(GLINER)/.installed
	BRIDLE_CRFSUITE_MODELS=$(CURDIR)/$(VENV)/crfsuite $(INTEGRATIONS)/bin/python -m pytest \
	  $(if $(TESTS),$(TESTS),$(PARALLEL) tests/heavy/integrations --ignore $(GLINER_TEST))
	$(if $(TESTS),,$(GLINER)/bin/python -m pytest $(GLINER_TEST))

$(INTEGRATIONS)/.installed: requirements/integrations.txt $(VENV)/.test
	@echo "bridle: installing the packages that Bridle plugs into (about a gigabyte)"
	@$(call SETTING,["project"]["optional-dependencies"]["integrations"],$(VENV)/integrations.txt)
	@$(BIN)/python tools/crfsuite_models.py $(VENV)/crfsuite
	$(call LAYER,$(INTEGRATIONS),-r $(VENV)/integrations.txt,$(if $(NEWEST),--upgrade,-c requirements/integrations.txt))

$(GLINER)/.installed: requirements/gliner.txt $(INTEGRATIONS)/.installed
	$(call LAYER,$(GLINER),gliner,-c requirements/gliner.txt,$(INTEGRATIONS)/bin)

# Real executors, actors and processes on this machine, some of which are killed. Spark needs Java 17 or newer.
DISTRIBUTED := $(VENV)/distributed
test-distributed: $(DISTRIBUTED)/.installed
	$(DISTRIBUTED)/bin/python -m pytest $(if $(TESTS),$(TESTS),tests/heavy/distributed)

$(DISTRIBUTED)/.installed: requirements/distributed.txt $(VENV)/.test
	@command -v java >/dev/null || { echo "bridle: Spark needs Java 17 or newer (Debian: openjdk-17-jre-headless)" >&2; exit 1; }
	@echo "bridle: installing Spark and Ray (about a gigabyte)"
	@$(call SETTING,["project"]["optional-dependencies"]["distributed"],$(VENV)/distributed.txt)
	$(call LAYER,$(DISTRIBUTED),-r $(VENV)/distributed.txt,-c requirements/distributed.txt)

# Chromium is Debian's, if it is there; tests in a browser are skipped with a message if there is none.
test-explorer: $(VENV)/.test $(VENV)/.explorer
	$(BIN)/python -m pytest $(if $(TESTS),$(TESTS),$(PARALLEL) tests/heavy/explorer)

# Each tool has an environment of its own. The versions beside doccano are those that it still works with.
STUDIO := $(VENV)/label-studio
DOCCANO := $(VENV)/doccano
test-annotation-tools: $(VENV)/.test $(STUDIO)/.installed $(DOCCANO)/.installed
	BRIDLE_LABEL_STUDIO=$(CURDIR)/$(STUDIO)/bin/label-studio BRIDLE_DOCCANO=$(CURDIR)/$(DOCCANO)/bin/doccano \
	  $(BIN)/python -m pytest $(if $(TESTS),$(TESTS),tests/heavy/annotation)

$(STUDIO)/.installed: WANTED = label-studio==1.23.2
$(DOCCANO)/.installed: WANTED = doccano==1.8.4 'marshmallow<4' 'numpy<2' 'setuptools<81'
$(STUDIO)/.installed $(DOCCANO)/.installed:
	@echo "bridle: installing $(firstword $(WANTED)) (about a gigabyte)"
	@rm -rf $(@D) && "$(PYTHON)" -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $(WANTED)
	@touch $@

coverage: $(VENV)/.test
	$(BIN)/python -m pytest -m "not slow" --cov --cov-report=term --cov-report=xml:build/coverage.xml $(TESTS)

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
	@$(INSTALL) -r $(VENV)/build.txt 'cmake>=3.20' 'ninja>=1.11'
	@touch $@

$(VENV)/.installed: $(VENV)/.tools $(SOURCE)
	@echo "bridle: compiling the kernels for each tier of vector instructions, and installing (a minute or two the first time)"
	@$(INSTALL) --compile --no-build-isolation .
	@touch $@

# What else a chore needs: make test, make check, make bench, make docs, make wheel, make explore.
$(VENV)/.test $(VENV)/.check $(VENV)/.bench $(VENV)/.docs $(VENV)/.wheel $(VENV)/.serve $(VENV)/.explorer: $(VENV)/.%: $(VENV)/.installed
	@$(call SETTING,["project"]["optional-dependencies"]["$*"],$(VENV)/$*.txt)
	@$(INSTALL) -r $(VENV)/$*.txt
	@touch $@

# ---- checks ---------------------------------------------------------------------------------------------------------

check: lint types stub-check test-tiers sanitize

# TypeScript checks the explorer's JavaScript against the types in its comments. Without npm this is skipped, but not in CI.
NODE := $(VENV)/node
$(NODE)/.installed: tools/explorer/package.json tools/explorer/package-lock.json $(VENV)/.check
	@! command -v npm >/dev/null || { \
	  mkdir -p $(NODE) && cp tools/explorer/package.json tools/explorer/package-lock.json $(NODE)/ \
	  && npm ci --prefix $(NODE) --silent --no-audit --no-fund && touch $@; }

define CHECK_EXPLORER
@if command -v npm >/dev/null; then $(NODE)/node_modules/.bin/tsc -p tools/explorer; \
elif [ "$$CI" = true ]; then echo "bridle: the check of the explorer needs npm (Debian: nodejs npm)" >&2; exit 1; \
else echo "bridle: there is no npm, so the explorer's JavaScript is not checked (Debian: nodejs npm)"; fi
endef

CPP := $(wildcard cpp/*/* fuzz/*.cpp fuzz/*.h) benchmarks/peak.cpp
TIDY := $(wildcard $(addprefix cpp/,$(addsuffix /*.cpp,search learn text spans)))  # the kernels: the rest would take minutes
lint: $(VENV)/.check $(NODE)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/clang-format --dry-run -Werror $(CPP)
	@printf '%s\n' $(TIDY) | xargs -P 2 -n 4 sh -c '$(BIN)/clang-tidy --quiet "$$@" -- -std=c++20 -Icpp 2>/dev/null' clang-tidy
	$(BIN)/codespell
	$(BIN)/python tools/prose.py
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows $(wildcard .github/workflows/*.yml)
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.readthedocs .readthedocs.yaml
	$(CHECK_EXPLORER)

format: $(VENV)/.check
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

types: $(VENV)/.check $(VENV)/.test
	$(BIN)/mypy

stub: $(VENV)/.check
	$(BIN)/python -m nanobind.stubgen -q -m bridle._native -o $(STUB)

stub-check: $(VENV)/.check $(VENV)/.test
	$(BIN)/python -m pytest tests/project/test_structure.py -k stub

# The contract, the tests that drive the kernels, and models as a whole, once per tier of vector instructions; but for the best
# tier, with which `make test` runs.
KERNEL_TESTS := tests/kernels $(addprefix tests/,test_processor.py test_lattice_padded.py test_phrases.py) \
  $(addprefix tests/decoding/test_,decoder.py result.py threads.py sums.py documents.py) $(addprefix tests/engines/test_,engines.py) \
  $(addprefix tests/spans/test_,spans.py selector.py) $(addprefix tests/rules/test_,compiled.py conditions.py) \
  $(addprefix tests/models/test_,lbfgs.py perceptron.py edges.py) tests/features/test_features.py \
  tests/models/test_deterministic.py tests/integrations/test_crfsuite.py tests/tagging/test_tagging.py \
  $(addprefix tests/data/test_,blocks_conll.py blocks_jsonl.py writers.py)
# Tiers differ in cpp/simd alone: word lattices, span selection and blocks of text do without it, rules reach it through engines.
VECTOR_TESTS := $(filter-out tests/spans/% tests/rules/% tests/data/%,$(KERNEL_TESTS))
TIER_TESTS := $(VECTOR_TESTS) $(addprefix tests/models/test_,theory.py training.py class_weights.py missing_labels.py)
test-tiers: $(VENV)/.test
	@for tier in $$($(BIN)/python -c 'import bridle; print(*bridle.simd().available[:-1])'); do \
	  echo "BRIDLE_SIMD=$$tier"; export BRIDLE_SIMD=$$tier; \
	  $(BIN)/python tests/soak.py --problems 500 && $(BIN)/python -m pytest $(PARALLEL) -m "not slow" $(TIER_TESTS) || exit 1; done

# A second build of the kernels, with sanitizers: 600 problems of the contract, and the other tests that drive the kernels, on the
# best tier; on AVX2 those that reach vectors. (Python itself is not instrumented: the library of the sanitizer must be loaded
# before it, and what the interpreter never frees is no leak of ours.)
#   $(call SAN_BUILD,address,undefined)   into $(SAN)/package
#   $(call SAN_RUN,libasan libubsan)      Python with it
define SAN_BUILD
@$(BIN)/cmake -S . -B $(SAN) -G Ninja -DCMAKE_BUILD_TYPE=Release -DBRIDLE_SANITIZE="$(strip $(1))" \
  -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" --log-level=WARNING
@MAKEFLAGS= $(BIN)/cmake --build $(SAN)
@rm -rf $(SAN)/package && mkdir -p $(SAN)/package && cp -R src/bridle $(SAN)/package/
@rm -f $(SAN)/package/bridle/_native*.so && cp $(SAN)/_native*.so $(SAN)/package/bridle/
endef
SAN_RUN = LD_PRELOAD="$(foreach library,$(1),$$(gcc -print-file-name=$(library).so))" \
  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=$(SAN)/package $(BIN)/python
ASAN_RUN = $(call SAN_RUN,libasan libubsan)
COMMA := ,
$(SAN)/.built: $(VENV)/.check $(VENV)/.test
	$(call SAN_BUILD,address$(COMMA)undefined)
	@touch $@

sanitize: $(SAN)/.built
	$(ASAN_RUN) tests/soak.py --problems 600
	$(ASAN_RUN) -m pytest $(PARALLEL) -p no:cacheprovider -m "not slow" $(KERNEL_TESTS)
	@! $(BIN)/python -c 'import bridle, sys; sys.exit("avx512" not in bridle.simd().available)' || { \
	  echo "BRIDLE_SIMD=avx2"; export BRIDLE_SIMD=avx2; \
	  $(ASAN_RUN) tests/soak.py --problems 200 && $(ASAN_RUN) -m pytest $(PARALLEL) -p no:cacheprovider -m "not slow" $(VECTOR_TESTS); }

prepare: $(VENV)/.check $(VENV)/.docs $(VENV)/.explorer $(NODE)/.installed $(INTEGRATIONS)/.installed $(GLINER)/.installed \
  $(SAN)/.built

THREAD_TESTS := $(addprefix tests/kernels/test_,learning.py attributes.py texts.py) \
  $(addprefix tests/decoding/test_,threads.py result.py sums.py documents.py) tests/rules/test_compiled.py tests/models/test_theory.py \
  tests/models/test_deterministic.py
tsan: SAN := build/tsan
tsan: $(VENV)/.check $(VENV)/.test
	$(call SAN_BUILD,thread)
	TSAN_OPTIONS="exitcode=66 suppressions=$(CURDIR)/cmake/tsan.supp" $(call SAN_RUN,libtsan) -m pytest -p no:cacheprovider -m "not slow" $(THREAD_TESTS)

FUZZ_BUILD := build/fuzz-kernels
SECONDS ?= 60
fuzz-kernels: $(VENV)/.tools
	@clang=$$(for name in "$$CLANG" clang++ clang++-19 clang++-18 clang++-16 clang++-14; do command -v "$$name" && break; done); \
	[ -n "$$clang" ] || { \
	  echo "bridle: libFuzzer comes with Clang; install clang and its runtime (Debian: clang libclang-rt-14-dev)" >&2; exit 1; }; \
	$(BIN)/cmake -S fuzz -B $(FUZZ_BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$$clang" \
	  -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" --log-level=WARNING
	@$(BIN)/cmake --build $(FUZZ_BUILD)
	@for target in search text; do mkdir -p $(FUZZ_BUILD)/corpus_$$target; \
	  $(FUZZ_BUILD)/fuzz_$$target $(FUZZ_BUILD)/corpus_$$target -max_total_time=$(SECONDS) -max_len=400 -rss_limit_mb=1000 \
	    -timeout=10 -verbosity=0 -print_final_stats=1 -artifact_prefix=$(FUZZ_BUILD)/ || exit 1; done

# ---- proofs that take longer ----------------------------------------------------------------------------------------

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py $(BENCH)

reproduce: $(VENV)/.bench
	$(BIN)/bridle reproduce $(NAME) $(if $(DATA),--data $(DATA)) $(REPRODUCE)

soak: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python tests/soak.py --tiers all --log build/soak.jsonl $(SOAK)

# Files that are damaged by chance: none may crash, hang, fill the memory or raise what is no BridleError.
fuzz: $(VENV)/.test
	$(BIN)/python tests/fuzz.py $(FUZZ)

# Warnings are errors. The pages of rules and formats are made from the library; they are committed, so `git diff` shows a change.
docs: $(VENV)/.docs
	@rm -rf docs/_build
	$(BIN)/python docs/generate.py
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@echo "bridle: open docs/_build/html/index.html"

# ---- wheels and releases --------------------------------------------------------------------------------------------

wheel: $(VENV)/.wheel
	$(BIN)/python tools/wheels.py build $(PYTHONS)

test-wheel: $(VENV)/.wheel
	$(BIN)/python tools/wheels.py test $(PYTHONS)

wheels: $(VENV)/.wheel
	$(BIN)/python -m cibuildwheel --output-dir dist

pins: $(VENV)/.wheel
	$(BIN)/python tools/pins.py

release-check: $(VENV)/.tools
	$(BIN)/python tools/release.py

clean:
	rm -rf $(VENV) .coverage build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
