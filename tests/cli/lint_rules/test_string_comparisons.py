from __future__ import annotations

import pytest

from dray.answers.linting.rules.single_objects import string_comparisons

GPU = 'device.attributes["gpu.example.com"]'
CAPACITY = 'device.capacity["gpu.example.com"]'


@pytest.mark.parametrize(
    ("expression", "what", "instead"),
    [
        (f'{GPU}.memory >= "16Gi"', "a quantity", f'{CAPACITY}.memory.compareTo(quantity("16Gi")) >= 0'),
        (f'"16Gi" <= {GPU}.memory', "a quantity", f'{CAPACITY}.memory.compareTo(quantity("16Gi")) >= 0'),
        (
            f"{GPU}['memory'] == '16Gi'",
            "a quantity",
            f"{CAPACITY}['memory'].compareTo(quantity(\"16Gi\")) == 0",
        ),
        (f'{CAPACITY}.memory > "1.5G"', "a quantity", f'{CAPACITY}.memory.compareTo(quantity("1.5G")) > 0'),
        (
            f'{GPU}.driverVersion >= "550.54"',
            "a version",
            f'{GPU}.driverVersion.compareTo(semver("550.54.0")) >= 0',
        ),
        (f'{GPU}.cudaVersion >= "12"', "a version", f'{GPU}.cudaVersion.compareTo(semver("12.0.0")) >= 0'),
        (f'{GPU}.fw < "v1.02.3-rc1"', "a version", f'{GPU}.fw.compareTo(semver("1.2.3-rc1")) < 0'),
        (f'{GPU}.cores >= "16"', "a number", f"{GPU}.cores >= 16"),
    ],
)
def test_finds_what_is_compared_as_a_string(expression: str, what: str, instead: str) -> None:
    [found] = string_comparisons(expression)
    assert (found.what, found.instead) == (what, instead)


@pytest.mark.parametrize(
    "expression",
    [
        f'{GPU}.model == "H100"',
        f'{GPU}.profile == "3g.40gb"',
        f'{GPU}.driverVersion == "550.54.15"',
        f'{CAPACITY}.memory.compareTo(quantity("16Gi")) >= 0',
        f'{GPU}.driverVersion.compareTo(semver("550.54.15")) >= 0',
        f"{GPU}.index >= 4",
        f'{GPU}.model.startsWith("16Gi")',
        'device.driver == "gpu.example.com"',
        "",
    ],
)
def test_leaves_the_rest_alone(expression: str) -> None:
    assert list(string_comparisons(expression)) == []


def test_hostile_expressions_take_no_time() -> None:
    assert list(string_comparisons('device.attributes["' * 500 + '"' * 5000 + " " * 5000)) == []
