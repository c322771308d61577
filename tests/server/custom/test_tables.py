"""The tables: definitions and values, and what is wrong with them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.errors import FieldError
from dray.server.custom import definition_rules, schema_check

from .widgets import definition


def table(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name(name).read_text())
    return loaded


def causes(errors: list[FieldError]) -> list[list[str]]:
    return sorted([error.field, error.reason] for error in errors)


@pytest.mark.parametrize("case", table("values.yaml"), ids=lambda case: f"{case['value']} as {case['schema']}"[:60])
def test_value(case: dict[str, Any]) -> None:
    schema, value = case["schema"], case["value"]
    found = [*schema_check.check(value, schema, "v"), *schema_check.check_unique(value, schema, "v")]
    assert causes(found) == sorted(case.get("causes", []))
    assert all(error.message and str(error) for error in found)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in table("definitions.yaml")])
def test_definition(case: dict[str, Any]) -> None:
    made = definition(case.get("schema"))
    for path, value in case.get("change", {}).items():
        place: Any = made
        *steps, last = [int(step) if step.isdigit() else step for step in _steps(path)]
        for step in steps:
            place = place[step]
        if value is None:
            del place[last]
        else:
            place[last] = value
    assert causes(definition_rules.check(made)) == sorted(case.get("causes", []))


def _steps(path: str) -> list[str]:
    return path.split(".")
