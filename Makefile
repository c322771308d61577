# `make demo` and `make test` do all the set-up they need; see README.md.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check bench soak conformance schema format clean

demo: $(READY)
	@echo '$$ dray lint examples/manifests'
	@$(BIN)/dray lint examples/manifests
	@echo; echo '$$ dray lint examples/mistakes'
	@$(BIN)/dray lint examples/mistakes || test $$? -eq 1
	@echo; echo '$$ dray allocate examples/cluster'
	@$(BIN)/dray allocate examples/cluster || test $$? -eq 1
	@echo; echo '$$ dray explain simulation examples/cluster'
	@$(BIN)/dray explain simulation examples/cluster || test $$? -eq 1
	@echo; echo '$$ dray convert examples/legacy/v1alpha2.yaml'
	@$(BIN)/dray convert examples/legacy/v1alpha2.yaml
	@echo; echo '$$ dray convert examples/legacy 2>/dev/null | dray lint -'
	@$(BIN)/dray convert examples/legacy 2>/dev/null | $(BIN)/dray lint -

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

conformance: $(READY)
	$(BIN)/python -m dray.testing.conformance allocation tests/conformance/allocation.jsonl.gz
	$(BIN)/python -m dray.testing.conformance hard tests/conformance/hard.jsonl.gz
	$(BIN)/python -m dray.testing.conformance api tests/conformance/api.jsonl.gz
	$(BIN)/python -m dray.testing.conformance cel tests/conformance/cel.jsonl.gz
	$(BIN)/python -m dray.testing.conformance cel-spec tests/conformance/cel-spec.jsonl.gz
	$(BIN)/python -m dray.testing.conformance flows tests/conformance/flows.jsonl.gz

# Figures go to benchmarks/results.json.
bench: $(READY)
	$(BIN)/python -m pytest benchmarks -o addopts=-q \
		--benchmark-json=benchmarks/results.json --benchmark-columns=min,median,rounds --benchmark-sort=name

# Ten minutes of watchers and writes, and fifty crashes; the tests have a short form of both.
soak: $(READY)
	DRAY_SOAK_SECONDS=600 DRAY_KILL_ROUNDS=50 $(BIN)/python -m pytest tests/store/test_soak.py tests/store/test_kill.py

# Writes src/dray/api/wire_types.py anew from the installed lightkube-models.
schema: $(READY)
	$(BIN)/python tools/generate_schema.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1; then \
		test -d .venv || uv venv --quiet --python '$(PYTHON)' .venv; \
		uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'; \
	else \
		test -d .venv || $(PYTHON) -m venv .venv; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'; \
	fi
	@touch $(READY)
