# One verb for each chore. `make` alone prints them.
SHELL := /bin/bash
PY := .venv/bin/python
.DEFAULT_GOAL := help
# Where this is set (containers, CI), every process that tests start compiles all its packages again: 4 s each.
unexport PYTHONDONTWRITEBYTECODE

help:  ## print this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

setup: .venv/.ready  ## make the virtual environment, install the packages and find (or fetch) Java

.venv/.ready: requirements.lock pyproject.toml scripts/setup.sh
	@bash scripts/setup.sh
	@touch $@

demo: setup  ## trains on a ring, a dozen queries, three regions; ends with the oracle's verdict
	@$(PY) -m godwit demo --plots demo

test: setup  ## everything CI runs: unit, property and Spark tests
	@GODWIT_SCHEDULES=$${GODWIT_SCHEDULES:-2500} bash scripts/test.sh -m "not full"

test-full: setup  ## the long suites too
	@bash scripts/test.sh

check: setup  ## lint, format, types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: setup  ## let ruff rewrite the files
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench-quick: setup  ## the headline figures, one JSON object per line; AREA=core runs one area only
	@$(PY) -m bench.quick $(AREA)

bench: setup  ## every experiment in full; refreshes docs/results
	$(PY) -m bench.full

bench-latency: setup  ## how long few rows take: a user's program, many shapes and queries, an idle fleet
	$(PY) -m bench.latency

bench-placement: setup  ## the placement search experiments
	$(PY) -m bench.placement

bench-sqpr: setup  ## the admission planner experiments
	$(PY) -m bench.sqpr

bench-isqd: setup  ## the published redeployment experiments, all strategies; control plane time at scale
	$(PY) -m bench.isqd

bench-plan: setup  ## changes of plan: the published experiments and ours
	$(PY) -m bench.plan

bench-falcon: setup  ## migrations of keys, every strategy, over links with a latency; ARGS=--full as published
	$(PY) -m bench.falcon $(ARGS)

bench-sql: setup  ## Nexmark's 23 queries beside plain Spark; ARGS="--queries q5 q7" runs some, the report has all there are
	$(PY) -m bench.sql $(ARGS)

bench-peers: setup  ## Apache Flink, plain Spark and godwit on the same rows; ARGS=--quick to try it out
	$(PY) -m bench.peers $(ARGS)

docs: setup  ## the documentation as a site, in out/site
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet

lock: setup  ## write requirements.lock again from pyproject.toml
	.venv/bin/uv pip compile -q --extra java --extra connectors --extra otel --group dev pyproject.toml -o requirements.lock --no-emit-index-url --no-annotate --no-header

clean:  ## remove the virtual environment and everything generated
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis demo out artifacts

.PHONY: help setup demo test test-full check format bench-quick bench bench-latency bench-placement bench-sqpr bench-isqd bench-plan bench-falcon bench-sql bench-peers docs lock clean
