from __future__ import annotations

from typing import Any

import pytest

from dray.api.label_selectors import from_object

LABELS = {"app": "web", "tier": "a"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


CASES = {
    "empty": ({}, True),
    "nulls": ({"matchLabels": None, "matchExpressions": None}, True),
    "labels": ({"matchLabels": {"app": "web", "tier": "a"}}, True),
    "one label differs": ({"matchLabels": {"app": "web", "tier": "b"}}, False),
    "in": (expression("tier", "In", "a", "b"), True),
    "not in the set": (expression("tier", "In", "b"), False),
    "absent is in no set": (expression("zone", "In", "b"), False),
    "outside": (expression("tier", "NotIn", "b"), True),
    "absent is outside": (expression("zone", "NotIn", "b"), True),
    "exists": (expression("app", "Exists"), True),
    "does not exist": (expression("zone", "DoesNotExist"), True),
    "exists after all": (expression("app", "DoesNotExist"), False),
    "no such operator": (expression("app", "Like", "web"), False),
    "both parts": ({"matchLabels": {"app": "web"}, **expression("tier", "In", "b")}, False),
}


@pytest.mark.parametrize(("selector", "expected"), CASES.values(), ids=CASES)
def test_from_object(selector: dict[str, Any], expected: bool) -> None:
    assert from_object(selector)(LABELS) is expected
