"""The tables of patches and their outcomes."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.server.patches.json_patch import json_patch
from dray.server.patches.strategic import strategic_merge
from dray.server.status import ApiError


def cases(name: str) -> list[Any]:
    table = yaml.safe_load(Path(__file__).with_name(name).read_text())
    return [pytest.param(case, id=case["name"]) for case in table]


@pytest.mark.parametrize("case", cases("json_patch.yaml"))
def test_json_patch(case: dict[str, Any]) -> None:
    document = deepcopy(case["document"])
    if "code" in case:
        with pytest.raises(ApiError) as refused:
            json_patch(document, case["patch"])
        assert refused.value.code == case["code"]
    else:
        assert json_patch(document, case["patch"]) == case["outcome"]
    assert document == case["document"]


@pytest.mark.parametrize("case", cases("strategic.yaml"))
def test_strategic_merge(case: dict[str, Any]) -> None:
    document, patch = deepcopy(case["document"]), deepcopy(case["patch"])
    if "code" in case:
        with pytest.raises(ApiError) as refused:
            strategic_merge(document, patch, case["of"])
        assert refused.value.code == case["code"]
    else:
        assert strategic_merge(document, patch, case["of"]) == case["outcome"]
    assert (document, patch) == (case["document"], case["patch"])
