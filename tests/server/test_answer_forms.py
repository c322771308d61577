"""Indented answers, for those who read them themselves."""

import json

import pytest

PATH = "/api/v1/namespaces/default"


@pytest.mark.parametrize(
    ("query", "agent", "expected"),
    [
        ("", "kubectl/v1.37.0", False),
        ("?pretty=true", "kubectl/v1.37.0", True),
        ("?pretty=1", "", True),
        ("?pretty=false", "curl/8.5.0", False),
        ("?pretty=nonsense", "curl/8.5.0", False),
        ("?pretty=", "curl/8.5.0", True),
        ("", "curl/8.5.0", True),
        ("", "Mozilla/5.0 (X11; Linux x86_64)", True),
    ],
)
def test_json_is_indented_for_people(api, query, agent, expected):
    body = api.raw("GET", PATH + query, user_agent=agent, accept="*/*").body
    assert (body.count(b"\n") > 5) is expected
    assert json.loads(body)["metadata"]["name"] == "default"


def test_long_lists_too(api):
    for i in range(30):
        document = {"metadata": {"name": f"c{i}"}, "data": {"a": "x" * 5000}}
        api.create("/api/v1/namespaces/default/configmaps", document)
    answer = api.raw("GET", "/api/v1/namespaces/default/configmaps?pretty=true")
    whole = answer.whole()
    assert len(json.loads(whole)["items"]) >= 30
    assert b'\n  "items": [\n' in whole
