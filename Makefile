# PYTHON is any Python >= 3.10; where it has torch >= 2.11 it is used as it is. USE_CUDA, FORCE_CUDA,
# TORCH_CUDA_ARCH_LIST, MAX_JOBS, CXX and CUDA_HOME steer the build: see tools/build.py.
PYTHON ?= python3
python = "$$(cat build/python)"
lint = .venv-lint/bin

export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))

.PHONY: help setup build test test-deep wheel demo compile-times format lint clean
help:
	@echo "make setup    a Python with torch and the test tools; where there is no torch, downloads it"
	@echo "make build    set-up, and the two libraries in torch_reductions/: minutes"
	@echo "make test     set-up, build, the quick suite: half an hour on two cores; with progress, and a summary at the end"
	@echo "make test-deep  every CUDA source, more schedules and cases, mutants, the fuzzer: most of an hour;"
	@echo "                MINUTES=30 begins nothing more after so many, and says what it left out"
	@echo "make wheel    set-up, build, then the wheel in dist/ that pip installs anywhere: minutes"
	@echo "make demo     set-up, build, then every rung timed on this machine, and demo.svg: a minute"
	@echo "make compile-times  the CPU seconds of each compile"
	@echo "make format   formats the sources;  make lint   checks format, style and types"
	@echo "make clean    removes what was built, but not .venv"

setup:
	@$(PYTHON) tools/environment.py

build: setup
	@$(python) tools/build.py

test: setup
	@$(python) tools/suite.py

test-deep: setup
	@$(python) tools/suite.py deep $(if $(MINUTES),--minutes $(MINUTES))

wheel: setup
	@$(python) tools/wheel.py

demo: build
	@$(python) -m torch_reductions demo

compile-times:
	@$(python) tools/build.py compile-times

.venv-lint/made-for: requirements-lint.txt
	@$(PYTHON) -m venv --clear .venv-lint
	@$(lint)/pip install -q --disable-pip-version-check -r requirements-lint.txt
	@cp requirements-lint.txt $@

cpp_files = $(shell find csrc tests -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')

format: .venv-lint/made-for
	@$(lint)/clang-format -i $(cpp_files)
	@$(lint)/ruff check --fix
	@$(lint)/ruff format

lint: setup .venv-lint/made-for
	@$(lint)/clang-format --dry-run -Werror $(cpp_files)
	@$(lint)/ruff check
	@$(lint)/ruff format --check
	@$(lint)/mypy --python-executable $(python)

clean:
	rm -rf build dist torch_reductions/*.so demo.svg .pytest_cache .mypy_cache .ruff_cache .hypothesis .venv-lint
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
