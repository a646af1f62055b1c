# Everything lands in .venv; delete it to start again.
PYTHON ?= python3
BIN := .venv/bin
JARS := .venv/jars
IVY = java -jar $$(ls .venv/lib/python3*/site-packages/pyspark/jars/ivy-2*.jar) -cache .venv/ivy -confs default -types jar -warn

install: $(BIN)/.installed

$(BIN)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(IVY) -dependency org.apache.iceberg iceberg-spark-runtime-4.1_2.13 1.12.0 -retrieve '$(JARS)/[artifact]-[revision].[ext]'
	$(IVY) -dependency org.xerial sqlite-jdbc 3.50.3.0 -retrieve '$(JARS)/[artifact]-[revision].[ext]'
	touch $@

.PHONY: install
