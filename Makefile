# The targets a developer needs; PYTHON is the interpreter of the environment to work in.
PYTHON ?= .venv/bin/python

.PHONY: install demo test slow coverage check format docs bench build clean

install: .venv/bin/python
.venv/bin/python:
	python3 -m venv .venv
	.venv/bin/python -m pip install --quiet --editable ".[test,check,docs]"

demo: $(PYTHON)
	$(PYTHON) -m einloom demo

test: $(PYTHON)
	$(PYTHON) -m pytest

slow: $(PYTHON)
	$(PYTHON) -m pytest -m "slow or not slow"

# without the long runs, in which Python's tracer takes most of the time and sees nothing new
coverage: $(PYTHON)
	$(PYTHON) -m pytest -q -n 2 --cov --cov-report= tests \
	  -k "not random and not test_scale and not numpy_own and not eight_threads and not benchmarks"
	$(PYTHON) -m coverage report --skip-covered

check: $(PYTHON)
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	PYTHONPATH=src $(PYTHON) -c "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"

format: $(PYTHON)
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

docs: $(PYTHON)
	$(PYTHON) -m sphinx -W --keep-going -q -b html docs docs/_build/html

bench: $(PYTHON)
	$(PYTHON) -m benchmarks

build: $(PYTHON)
	$(PYTHON) -m build

clean:
	rm -rf build dist docs/_build .coverage htmlcov
