from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from dray.api.suggestions import did_you_mean, suggestion


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("gpu.nvidea.com", ["gpu.nvidia.com", "dra.net"], "did you mean gpu.nvidia.com?"),
        ("productname", ["productName", "uuid"], "did you mean productName?"),
        ("xyzzy", ["b", "a"], "there are: a, b"),
        ("xyzzy", [], "there are none"),
        ("xyzzy", list("abcdefghij"), "there are: a, b, c, d, e, f, g, h and 2 more"),
    ],
)
def test_a_suggestion_is_a_similar_name_or_the_names_there_are(name: str, known: list[str], said: str) -> None:
    assert suggestion(name, known) == said


def test_several_similar_names_can_be_suggested() -> None:
    assert did_you_mean("stat", ["status", "start", "logs"], most=3) == "did you mean start or status?"


def test_a_misspelt_attribute_in_a_selector_gets_a_suggestion(run: Callable[..., Result]) -> None:
    expression = 'device.attributes["gpu.example.com"].modle == "x"'
    result = run("cel", expression, "--device", "examples/manifests/partitions.yaml")
    assert result.exit_code == 1
    assert "no such key: modle; did you mean model?" in result.stdout
