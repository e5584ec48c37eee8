.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BY_FILE := --dist=loadfile --no-loadscope-reorder
BOTH_CORES := --numprocesses=2 $(BY_FILE)
# one more, because tests of whole processes wait for them
WITH_WAITING := --numprocesses=3 $(BY_FILE)
# files with tests that a profile of Hypothesis makes longer; found by their imports
GENERATED = $(shell grep -rlE '^(from|import) (hypothesis|tests.rotation)' --include='test_*.py' tests | sort)
# memory for what tests write and remove again, where there is at least 1 GB of it
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 1048576 { print $$6 }')
export UV_NO_PROGRESS := 1
# where the tables lie, how many workers of a cluster compute, where secrets are: docs/settings.md
ifdef LAKE
export DEDP_LAKE := $(LAKE)
endif
ifdef CLUSTER
export DEDP_CLUSTER := $(CLUSTER)
endif
ifdef SECRETS
export DEDP_SECRETS := $(SECRETS)
endif
# every command starts processes, and each would compile all packages anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo up status check static quick test changed budgets fuzz bench format docs pictures freeze lock clean

help: ## what there is to run
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.ready: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed, this is " + sys.version.split()[0])'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.8
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

demo: $(VENV)/.ready ## land a week, load it, then late data and a bad batch; FROM=day, or LOG=web server logs; LAKE=s3 and CLUSTER=2 as up
	@$(BIN)/dedp demo $(if $(LOG),--log $(LOG)) $(if $(FROM),--from $(FROM))

up: $(VENV)/.ready ## Spark engine, PostgreSQL, Kafka, HTTP services, status page, Dagster; with LAKE=s3, CLUSTER=2, SECRETS=bao an S3 server, a Spark cluster, a server of secrets; Ctrl-C ends them
	@$(BIN)/dedp up $(if $(PORT),--port $(PORT)) $(if $(ENGINE_PORT),--engine-port $(ENGINE_PORT)) \
		$(if $(DATABASE_PORT),--database-port $(DATABASE_PORT)) $(if $(KAFKA_PORT),--kafka-port $(KAFKA_PORT)) \
		$(if $(SERVICES_PORT),--services-port $(SERVICES_PORT)) $(if $(STATUS_PORT),--status-port $(STATUS_PORT)) \
		$(if $(REGISTRY_PORT),--registry-port $(REGISTRY_PORT)) $(if $(S3_PORT),--s3-port $(S3_PORT)) \
		$(if $(BAO_PORT),--bao-port $(BAO_PORT))

status: $(VENV)/.ready ## what the ledger says, by table and partition
	@$(BIN)/dedp status

check: $(VENV)/.ready ## format, lint, types, import contracts, dead code, tests without Spark
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target static quick

static: $(VENV)/.ready
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-cache > $(VENV)/imports.txt || { cat $(VENV)/imports.txt; exit 1; }
	@$(BIN)/vulture
	@$(BIN)/mypy --no-error-summary

quick: $(VENV)/.ready
	@written=$$(mktemp -d $(if $(MEMORY),-p $(MEMORY))) && trap 'rm -rf "$$written"' EXIT && chmod 755 $$written && \
		TMPDIR=$$written $(BIN)/pytest -q -m "not spark and not slow and not runs" \
		--numprocesses=2 --dist=worksteal

test: check ## everything: embedded, then the marked subset again over Spark Connect, its lakes in a bucket
	@$(BIN)/dedp setup
	@$(BIN)/pytest -q -m "spark or slow or runs" --engine shared --durations=20 --durations-min=2 $(WITH_WAITING)
	@$(BIN)/pytest -q -m both --engine connect --lake s3 $(BOTH_CORES)

changed: $(VENV)/.ready ## tests that reach what differs from BASE (HEAD unless stated) by imports
	@$(BIN)/dedp setup
	@files=$$($(BIN)/python -m tests.changed $(BASE)) && test -z "$$files" || $(BIN)/pytest -q --engine shared $$files $(BOTH_CORES)

budgets: $(VENV)/.ready ## whether a test file, or all together, took too much of a core in the last `make test`
	@$(BIN)/python -m tests.timing

fuzz: $(VENV)/.ready ## the generated tests, longer and with other seeds; contracts by case in all ways
	@$(BIN)/dedp setup
	@$(BIN)/pytest -q --hypothesis-profile=fuzz $(GENERATED) $(BOTH_CORES)

bench: $(VENV)/.ready ## speed as ratios, both sides in one run
	@$(BIN)/dedp setup
	@$(BIN)/python -m benchmarks $(BENCH)

format: $(VENV)/.ready ## rewrite the code, and the tables of docs, as `make check` wants them
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .
	@$(BIN)/python -m tests.contracts.readme docs/commands.md docs/doors.md docs/patterns.md docs/settings.md
	@$(BIN)/python -m tests.contracts.face

docs: $(VENV)/.ready ## the site of the documentation, in .dedp/docs/html; BUILDER=zensical builds the same pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m docs.site $(if $(BUILDER),--builder $(BUILDER))

pictures: $(VENV)/.ready ## the pictures of README, of a project that is made and started for them, by Chromium
	@$(BIN)/dedp setup
	@$(BIN)/python -m tests.ui.pictures docs/pictures

freeze: $(VENV)/.ready ## note the interface of new tables and patterns, so that a change of it shows
	@$(BIN)/python -m tests.contracts.freeze

lock: $(VENV)/.ready ## resolve the pins again
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-header \
		--extra all --group dev --output-file requirements.lock pyproject.toml

clean: ## remove what was written and installed
	rm -rf .dedp $(VENV)
