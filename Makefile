# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SERVER := packages/snellen-server
# Empty where the folder is deleted, without which everything else works.
LAB := $(wildcard packages/snellen-lab)
PROJECTS := pyproject.toml $(SERVER)/pyproject.toml $(addsuffix /pyproject.toml,$(LAB))
# uv does in half a minute what pip does in two, and brings torch in the build that fits the machine, or from where pip is
# told to look. Where none is at hand, pip brings one into the environment; where that finds less than pip, pip does it all.
# `make UV= demo` goes without.
UV := $(or $(shell command -v uv),$(BIN)/uv)
WHEELS = $(or $(PIP_FIND_LINKS),$(shell $(PYTHON) -m pip config get global.find-links 2>/dev/null))
TORCH = $(or $(addprefix --find-links=,$(WHEELS)),--torch-backend auto)
# Modules are compiled when they are first imported: most never are.
PIP = $(BIN)/python -m pip --disable-pip-version-check -q install --no-compile -c constraints.txt
INSTALL = { test -x "$(UV)" && $(UV) pip install -q --python $(BIN)/python -c constraints.txt $(TORCH) $(1); } || $(PIP) $(1)
# The demo's acuity card is of the lab.
DEMO := torch -e '.[hf,demo,view]' $(addprefix -e ,$(LAB))
DEV := torch -e '.[dev]' $(addprefix -e ,$(LAB)) -e '$(SERVER)[postgres]'
DOCS := -e '.[docs,release]'

# Tests start hundreds of processes: each module is compiled once, whatever the surroundings say.
export PYTHONDONTWRITEBYTECODE :=

# Three processes more than cores, as tests wait for what they started almost half of their time; and one thread in each:
# tiny models are slower on two.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 3)
# Files begin in the order of conftest.py.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Tests write and flush many small files: in memory, where there is enough of it, none waits for a disk.
MEMORY := $(shell grep -q '^[^ ]* /dev/shm [^ ]* \(.*,\)\?noexec' /proc/mounts || \
	df -k --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 4e6 { print "/dev/shm" }')

.PHONY: demo test ready tests quick slow installed alone coverage fuzz speed check style types site pictures fields lock dist system clean

demo: $(VENV)/demo.done
	$(BIN)/snellen demo

# Which lines the tests run. Takes twice as long as `make test`.
coverage: $(VENV)/dev.done system
	$(PYTEST) --cov --cov-report=term:skip-covered

# On a fresh environment the modules are compiled on one core beside the checks on the other.
test: ready
	@$(MAKE) --no-print-directory -j2 check $(VENV)/compiled.done
	@$(MAKE) --no-print-directory tests

# Both wait for what they fetch, so beside each other.
ready:
	@$(MAKE) --no-print-directory -j2 $(VENV)/dev.done system

tests: $(VENV)/compiled.done
	@scratch=$$(mktemp -d $(or $(MEMORY),/tmp)/snellen.XXXXXX) && trap 'rm -rf "$$scratch"' EXIT && trap 'exit 130' INT TERM && chmod 1777 $$scratch && \
		set -x && TMPDIR=$$scratch $(PYTEST) -m "not slow and not installed"

# While one writes: the tests that what changed since the last `make quick` reaches; the first time, all of them, slowly.
# Other processes that a test starts are not followed: `make test` decides.
quick: $(VENV)/dev.done
	$(PYTEST) --testmon -m "not slow and not installed"

# The tests that start many processes, or ask a real model about a whole suite.
slow: $(VENV)/dev.done system
	$(PYTEST) -m slow

# The wheels, each in a fresh environment: every verb, the READMEs' commands, the server. Needs a package index, or uv's cache.
installed: $(VENV)/dev.done
	$(PYTEST) -n 2 -m installed tests/test_installed.py tests/test_installed_readmes.py $(wildcard $(LAB)/tests/test_installed_lab.py)

# The proof that the harness and the server need nothing of the lab: their tests, in a copy without its folder and an
# environment of its own.
alone:
	@copy=$$(mktemp -d $(or $(MEMORY),/tmp)/snellen.XXXXXX) && trap 'rm -rf "$$copy"' EXIT && trap 'exit 130' INT TERM && chmod 755 $$copy && \
		git ls-files -z -- . ':!packages/snellen-lab' | xargs -0 cp --parents --target-directory $$copy && \
		$(MAKE) --no-print-directory -C $$copy ready tests && cd $$copy && $(BIN)/python tests/foreign_door.py

# The properties alone, with fresh random examples and many of them; what they find becomes an @example.
fuzz: $(VENV)/dev.done
	SNELLEN_TEST_PROFILE=fuzz $(PYTEST) -m hypothesis

check: style types

style: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/foreign_door.py

types: $(VENV)/dev.done
	$(BIN)/pyrefly check --summary=none

# What each command costs beside a pinned revision, in a minute; needs the history of the repository.
speed: $(VENV)/dev.done
	$(BIN)/python bench/commands.py --short

# The documentation site, under build/site; a broken link or a page in no section ends it (with --quiet, links would not).
site: $(VENV)/docs.done
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The pictures of docs/images, made again by running what they show.
pictures: $(VENV)/dev.done system
	$(BIN)/python website/pictures.py

# What is made of declared fields and docstrings: types of keywords, the tables of docs/reference/*-fields.md, and
# docs/reference/python.md and plugin-api.md.
fields: $(VENV)/dev.done
	$(BIN)/python website/fields.py
	$(BIN)/python website/python_reference.py

# What the images install, with the hash of each file. Run it after a change of dependencies or of constraints.txt.
lock: $(VENV)/bin/python
	env -u PIP_FIND_LINKS "$(UV)" pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
		--custom-compile-command "make lock" -c constraints.txt --override deploy/overrides.txt \
		--no-emit-package snellen --no-emit-package snellen-lab --no-emit-package snellen-server \
		-o deploy/requirements.lock deploy/requirements.in

# Wheels and sdists of all packages under dist/, with what a package index would refuse.
dist: $(VENV)/docs.done
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(if $(LAB),$(BIN)/python -m build --outdir dist $(LAB))
	$(BIN)/python -m build --outdir dist $(SERVER)
	$(BIN)/twine check --strict dist/*

# System packages that some tests need: a browser for the report, WordNet for similar classes, a database for the
# server. Left out, with a word, where they cannot be installed.
SYSTEM := chromium wordnet-base postgresql

system:
	@dpkg -s $(SYSTEM) >/dev/null 2>&1 || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq $(SYSTEM) >/dev/null; } \
		|| echo "$(SYSTEM): not all are there or can be installed; the tests that need them will say that they wait"

# Without uv, the pip that comes with Python 3.11 takes a minute longer than today's to find what fits together.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	@command -v "$(UV)" >/dev/null || $(PIP) $(if $(UV),uv,--upgrade pip) || true

# torch comes with the constraints: without them an unpinned one brings gigabytes of CUDA packages.
$(VENV)/demo.done: $(VENV)/bin/python pyproject.toml $(addsuffix /pyproject.toml,$(LAB)) constraints.txt
	$(call INSTALL,$(DEMO))
	@touch $@

$(VENV)/dev.done: $(VENV)/bin/python $(PROJECTS) constraints.txt
	$(call INSTALL,$(DEV))
	@touch $@ $(VENV)/demo.done $(VENV)/docs.done

# Compiled once, and not by each of the workers that begin together. Tests that cannot be collected are told of by `tests`.
$(VENV)/compiled.done: $(VENV)/dev.done
	$(BIN)/python -m pytest --collect-only -qq >/dev/null || true
	@touch $@

# The pages about verbs of other packages need their help, and nothing that these load.
$(VENV)/docs.done: $(VENV)/bin/python $(PROJECTS) constraints.txt
	$(call INSTALL,$(DOCS))
	$(call INSTALL,--no-deps $(addprefix -e ,$(LAB)) -e $(SERVER))
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis dist build
