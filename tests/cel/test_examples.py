"""The worked examples of the reference: outcome, cost and estimate of each, and that both variants agree."""

import json
import re
from pathlib import Path

import pytest

from dray.cel import CompileError, EvaluationError, compile_derived, compile_selector
from dray.cel.values import Value

from . import fixtures

EXAMPLES = [json.loads(line) for line in Path(__file__).with_name("examples.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example['row']}: {example['expression'][:50]}")
def test_example(example):
    compile_ = compile_derived if example["use"] == "derived" else compile_selector
    device = fixtures.lists() if example["device"] == "lists" else fixtures.plain()
    if "compile error" in example:
        with pytest.raises(CompileError) as refused:
            compile_(example["expression"])
        assert refused.value.message == example["compile error"]
        return
    program = compile_(example["expression"])
    assert program.estimated_cost == example["estimate"]
    if "error" in example:
        ask = program.matches if example["use"] == "selector" else program.evaluate
        with pytest.raises(EvaluationError, match=re.escape(example["error"])):
            ask(device)
        return
    value, cost = program.evaluate(device)
    assert (_plain(value), cost) == (example["value"], example["cost"])
    if example["use"] == "selector":
        assert program.matches(device) is value


def _plain(value: Value):
    return value if isinstance(value, bool | int | str | list) else str(value)
