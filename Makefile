# The commands a newcomer types. Each sets up what it needs, says so, and is quick the second time.
PYTHON := .venv/bin/python
export LLVM_SYS_191_PREFIX ?= $(shell llvm-config-19 --prefix 2>/dev/null || echo /usr/lib/llvm-19)
export PYO3_PYTHON := $(CURDIR)/$(PYTHON)
# Other environments that happen to be active must not leak into ours.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONPATH
# Tests must not paper over a bug of the compiler by running eager.
TEST_ENV := OXYTORCH_BUG=fatal

.PHONY: help setup build demo test test-rust test-python pythons bench soak sweep models gpu check fmt clean

help:
	@echo "make setup   LLVM 19 (apt) and .venv with the pinned packages"
	@echo "make build   the extension, in release, into .venv"
	@echo "make demo    GPT-2: eager, oxytorch and torch.compile in one table"
	@echo "make test    Rust tests, then the differential tests against eager PyTorch"
	@echo "make pythons the tests of capture with the other Pythons that are installed (3.11, 3.13)"
	@echo "make bench   seven workloads, fresh process and caches for each; writes benches/results/"
	@echo "make soak    10,000 calls while everything around them changes, against eager; memory must be flat"
	@echo "make sweep   models at sequences, batches, images and graphs of all sizes against eager; at most two compiles each"
	@echo "make models  90 models of transformers, timm, torchvision and others against eager; writes docs/models.md"
	@echo "make gpu     correctness, bandwidth and workloads on this machine's GPU; writes docs/gpu.md"
	@echo "make check   formatting, lints, dependency edges"
	@echo "make clean   removes what was built (not .venv)"

setup:
	@scripts/setup.sh

build: setup
	@scripts/build.sh

demo: build
	@$(PYTHON) examples/demo.py

test: test-rust test-python

test-rust: setup
	@echo "test: Rust"
	@$(TEST_ENV) cargo test --workspace --quiet

test-python: build
	@echo "test: Python"
	@$(TEST_ENV) $(PYTHON) -m pytest python/tests

# The versions besides that of .venv: make pythons VERSIONS=3.13
VERSIONS ?= 3.11 3.13
pythons: setup
	@scripts/pythons.sh $(VERSIONS)

bench: build
	@$(PYTHON) benches/bench.py $(BENCH)

soak: build
	@$(TEST_ENV) $(PYTHON) benches/soak.py $(SOAK)

sweep: build
	@$(TEST_ENV) $(PYTHON) benches/sweeps.py $(SWEEP)

models: build
	@$(PYTHON) benches/models.py $(MODELS)

gpu: build
	@$(PYTHON) scripts/gpu_report.py $(GPU)

check: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(PYTHON) scripts/check_edges.py

fmt:
	cargo fmt --all

clean:
	cargo clean --quiet
	rm -rf build python/oxytorch/*.so
	find python examples benches -name __pycache__ -prune -exec rm -rf {} +
