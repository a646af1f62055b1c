# Everything lands in .venv; delete it to start again.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --quiet --disable-pip-version-check
PYTEST := LC_ALL=C.UTF-8 $(BIN)/python -m pytest --durations=12
# Half of the time is spent waiting for servers, disks and clocks: two run beside each other.
TWO := -n 2 --dist loadfile

.PHONY: install spark-wheel packages jars develop servers demo month test test-all unit lint types bench mutants docs clean

install: .venv/.installed

# Two lanes for two cores: PySpark comes as source, so a wheel of it is made and its Ivy fetches jars
# while pip fetches all other packages.
.venv/.installed: pyproject.toml constraints.txt jars.xml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	+$(MAKE) --no-print-directory -j 2 jars packages
	$(PIP) install -c constraints.txt --find-links .venv/wheels -e '.[examples]'
	rm -rf .venv/wheels
	$(BIN)/python -m bcn.engine.archive
	touch $@

# What is in it is packed already: packing it again would take half of the time.
spark-wheel:
	$(PIP) wheel -c constraints.txt --no-deps -C--build-option=--compression=stored --wheel-dir .venv/wheels pyspark
	$(BIN)/python -m zipfile --extract .venv/wheels/pyspark-*.whl .venv/wheels

jars: spark-wheel
	java -jar .venv/wheels/pyspark/jars/ivy-2*.jar -ivy jars.xml -cache .venv/ivy -confs default -types jar bundle -warn \
		-retrieve '.venv/jars/[artifact]-[revision].[ext]' > .venv/ivy.log || (cat .venv/ivy.log; exit 1)

packages:
	$(BIN)/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
		print(*(name for name in project['dependencies'] if 'pyspark' not in name), sep='\n')" \
		| $(PIP) install -c constraints.txt -r /dev/stdin

develop: .venv/.developing  ## what tests, checks and the bench need besides

.venv/.developing: .venv/.installed
	$(PIP) install -c constraints.txt -e '.[dev]'
	touch $@

servers: .venv/.servers  ## what the tests' servers need; each is fetched once

.venv/.servers: .venv/.developing
	$(BIN)/python -m tests.support.servers
	touch $@

demo: install           ## a small warehouse, backup, disaster, restore, proof
	$(BIN)/python -m examples.demo

month: install          ## a month in the life of a catalog, written to docs/month.md
	$(BIN)/python -m examples.month

test: develop servers lint types      ## every test that is not slow
	$(PYTEST) $(TWO) -m "not slow"

test-all: develop servers lint types  ## the slow ones too
	$(PYTEST) $(TWO)

unit: develop                 ## the fast part: no Spark, no server, on all cores
	$(PYTEST) -n auto -m "not spark and not server and not long and not slow"

lint: develop
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: develop
	$(BIN)/mypy

mutants: develop        ## switch each step off: some test must fail
	$(BIN)/python -m tests.mutants

bench: develop          ## figures beside the peers', in one run
	$(BIN)/python -m bench

docs: install           ## pages that are generated
	$(BIN)/python -m bcn.cli.reference cli > docs/cli.md
	$(BIN)/python -m bcn.cli.reference errors > docs/errors.md

clean:
	rm -rf .venv demo month
