# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

.PHONY: demo test coverage fuzz check system clean

demo: $(VENV)/demo.done
	$(BIN)/snellen demo

# Which lines the tests run. Takes twice as long as `make test`.
coverage: $(VENV)/dev.done system
	$(PYTEST) --cov --cov-report=term:skip-covered

# A process for each core, and one thread in each: tiny models are slower on two.
test: $(VENV)/dev.done system check
	$(PYTEST)

# The properties alone, with fresh random examples and many of them; what they find becomes an @example.
fuzz: $(VENV)/dev.done
	SNELLEN_TEST_PROFILE=fuzz $(PYTEST) -m hypothesis

check: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# System packages that some tests need: a browser for the report, WordNet for similar classes. Left out, with a word,
# where they cannot be installed.
SYSTEM := chromium wordnet-base

system:
	@dpkg -s $(SYSTEM) >/dev/null 2>&1 || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq $(SYSTEM) >/dev/null; } \
		|| echo "$(SYSTEM): not all are there or can be installed; the tests that need them will say that they wait"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch comes with the constraints: without them an unpinned one brings gigabytes of CUDA packages.
$(VENV)/demo.done: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt torch -e '.[hf,metrics,demo]'
	@touch $@

$(VENV)/dev.done: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt torch -e '.[dev]'
	@touch $@ $(VENV)/demo.done

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
