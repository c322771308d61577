# `make demo` and `make test` do all the set-up they need; see README.md.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# For tests that take longer than the limit in pyproject.toml.
ENDLESS := -o faulthandler_timeout=0

.PHONY: traces demo test check bench soak fuzz conformance schema proto recording format clean

# A cluster on this machine and a tour of claims; it ends by itself.
demo: $(READY)
	@$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 0 tests/test_structure.py

conformance: $(READY)
	$(BIN)/python -m dray.testing.conformance allocation tests/conformance/allocation.jsonl.gz
	$(BIN)/python -m dray.testing.conformance hard tests/conformance/hard.jsonl.gz
	$(BIN)/python -m dray.testing.conformance api tests/conformance/api.jsonl.gz
	$(BIN)/python -m dray.testing.conformance cel tests/conformance/cel.jsonl.gz
	$(BIN)/python -m dray.testing.conformance cel-spec tests/conformance/cel-spec.jsonl.gz
	$(BIN)/python -m dray.testing.conformance flows tests/conformance/flows.jsonl.gz
	$(BIN)/python -m dray.testing.conformance cluster tests/conformance/cluster.jsonl.gz
	$(BIN)/python -m dray.testing.conformance groups tests/conformance/groups.jsonl.gz \
		--known tests/conformance/groups-known.json

# Figures go to benchmarks/results.json.
bench: $(READY)
	$(BIN)/python -m pytest benchmarks -o addopts=-q \
		--benchmark-json=benchmarks/results.json --benchmark-columns=min,median,rounds --benchmark-sort=name

# Ten minutes of watchers and writes, fifty crashes, two hundred walks and 2,000 of the scheduler alone, 1,000 random
# worlds with queues, 130,000
# writes over a few hundred objects, two hundred cycles with a driver that is killed, as many of each way to share GPUs,
# thirty kills of a node with pods on it, every error of NVML in every call of the GPU driver, and twenty fleets of 200
# machines with 1,000 pods, twenty replays of recorded clusters, 1,000 plans against all single
# changes, and 60 plans against what a cluster then does; the tests
# have a short form of each.
soak: $(READY)
	DRAY_SOAK_SECONDS=600 DRAY_KILL_ROUNDS=50 DRAY_WALK_ROUNDS=200 DRAY_WALK_STEPS=500 DRAY_CORE_WALK_ROUNDS=500 \
		DRAY_CORE_WALK_STEPS=400 DRAY_WORLDS=334 DRAY_WORLD_STEPS=30 \
		DRAY_CHURN_WRITES=130000 DRAY_DRIVER_CYCLES=200 DRAY_NODE_KILLS=30 DRAY_CUT_SECONDS=60 \
		DRAY_VOLUME_READERS=40 DRAY_SYMLINK_RACES=100000 \
		DRAY_PENDING_PODS=5000 DRAY_NVML_ERRORS=all DRAY_FLEET_SEEDS=20 DRAY_FLEET_MACHINES=200 DRAY_FLEET_PODS=1000 \
		DRAY_SLOW_WATCHERS=5000 DRAY_TRIALS=20000 DRAY_REPLAY_WORLDS=20 DRAY_WALKS=1000 DRAY_PREDICTIONS=60 \
		$(BIN)/python -m pytest tests/store/test_soak.py tests/server/test_soak.py tests/store/test_kill.py \
		tests/scheduling_loop/test_random_walk.py tests/scheduling_loop/test_core_walk.py tests/scheduling_loop/test_what_if.py tests/scheduling/test_random_worlds.py \
		tests/attacks/test_churn.py tests/attacks/test_server.py tests/attacks/test_pending.py tests/attacks/test_volumes.py tests/process/test_beneath.py tests/driver/test_kill.py \
		tests/drivers/nic/test_kill.py tests/drivers/nic/test_attach.py tests/drivers/nic/test_up.py \
		tests/drivers/gpu/test_kill.py tests/drivers/gpu/test_nvml_errors.py tests/drivers/gpu/test_sick_gpus.py \
		tests/node/test_kill.py tests/cli/test_machines.py tests/fleet/test_rehearsal.py \
		tests/replay/test_against_a_cluster.py tests/planning/test_one_step.py \
		tests/planning/test_predicted_worlds.py tests/planning/test_predicted_drains.py $(ENDLESS)

# Ten minutes of mutated objects and calls beside pods of others, and requests made from our own OpenAPI, each time
# others; the tests have a few of them.
fuzz: export DRAY_FUZZ_SEED := $(or $(DRAY_FUZZ_SEED),$(shell date +%s))
fuzz: $(READY)
	DRAY_FUZZ_SECONDS=$${DRAY_FUZZ_SECONDS:-600} $(BIN)/python -m pytest tests/attacks/fuzz -n 0 -s $(ENDLESS)
	DRAY_FUZZ_EXAMPLES=$${DRAY_FUZZ_EXAMPLES:-20} $(BIN)/python -m pytest tests/server/test_schemathesis.py -n 0 $(ENDLESS)

# Writes src/dray/api/wire_fields.txt anew from the sources of the Kubernetes API: SOURCES is `staging/src/k8s.io` of a
# checkout of Kubernetes.
schema: $(READY)
	$(BIN)/python tools/generate_wire_types.py $(SOURCES)

# Writes the messages of src/dray/_proto/kubelet.proto in Python anew.
proto: $(READY)
	$(BIN)/python tools/generate_proto.py

# The tables and plots of docs/replay.md, more than an hour of CPU. TRACES is a folder with the files of Alibaba's
# cluster-trace-gpu-v2023. Results are kept in benchmarks/replays and used again.
TRACES ?= ../shared/traces/openb
traces: $(READY)
	$(BIN)/python tools/replay_tables.py all --traces $(TRACES)

# Takes the pictures of docs/page.md anew, with Chromium.
screenshots: $(READY)
	DRAY_PICTURES=docs/page $(BIN)/python -m pytest -n 0 tests/web/test_screenshots.py
	DRAY_SCREENSHOTS=docs/page $(BIN)/python -m pytest -n 0 tests/web/test_first_visit_browser.py

# Writes docs/session.svg anew from a real session.
recording: $(READY)
	$(BIN)/python tools/record_terminal.py docs/session.svg

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	@echo "installing dray and its tools into .venv; the first time this takes about a minute"
	@if command -v uv >/dev/null 2>&1; then \
		test -d .venv || uv venv --quiet --python '$(PYTHON)' .venv; \
		uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'; \
	else \
		test -d .venv || $(PYTHON) -m venv .venv; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'; \
	fi
	@touch $(READY)
