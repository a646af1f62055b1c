# Everything lands in .venv; delete it to start again.
PYTHON ?= python3
BIN := .venv/bin
JARS := .venv/jars
IVY = java -jar $$(ls .venv/lib/python3*/site-packages/pyspark/jars/ivy-2*.jar) \
	-cache .venv/ivy -confs default -types jar bundle -warn -retrieve '$(JARS)/[artifact]-[revision].[ext]'
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
PYTEST := LC_ALL=C.UTF-8 $(BIN)/python -m pytest --durations=12
# Half of the time is spent waiting for servers, disks and clocks: two run beside each other.
TWO := -n 2 --dist loadfile

.PHONY: install spark-wheel packages class-archive jars develop servers demo month test test-all unit lint types bench mutants docs clean

install: .venv/.installed

# Two lanes for two cores. PySpark comes as source: a wheel of it is made while all others are fetched.
.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	+$(MAKE) --no-print-directory -j 2 spark-wheel packages
	$(PIP) --find-links .venv/wheels -e '.[examples]'
	rm -rf .venv/wheels
	$(IVY) -dependency org.apache.iceberg iceberg-spark-runtime-4.1_2.13 1.12.0
	+$(MAKE) --no-print-directory -j 2 class-archive jars
	touch $@

# Jars are packed already: packing them again, as a wheel would, takes half of the time.
spark-wheel:
	-$(BIN)/pip wheel --quiet --disable-pip-version-check -c constraints.txt --no-deps \
		-C--build-option=--compression=stored --wheel-dir .venv/wheels pyspark

packages:
	$(BIN)/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
		print(*(name for name in project['dependencies'] if 'pyspark' not in name), sep='\n')" | $(PIP) -r /dev/stdin

class-archive:
	$(BIN)/python -m bcn.engine.archive

jars:
	$(IVY) -dependency org.xerial sqlite-jdbc 3.50.3.0
	$(IVY) -dependency org.postgresql postgresql 42.7.8
	$(IVY) -dependency org.apache.iceberg iceberg-aws-bundle 1.12.0
	$(IVY) -notransitive -dependency org.apache.hadoop hadoop-aws 3.4.2
	$(IVY) -notransitive -dependency software.amazon.awssdk s3-transfer-manager 2.54.17
	$(IVY) -notransitive -dependency software.amazon.awssdk apache-client 2.54.17

develop: .venv/.developing  ## what tests, checks and the bench need besides

.venv/.developing: .venv/.installed
	$(PIP) -e '.[dev]'
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
