import pytest

from dray.client.dropped_fields import dropped


@pytest.mark.parametrize(
    ("written", "kept", "field"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, ""),
        ({"a": "1"}, {"a": "1000m"}, ""),
        ({"a": None, "b": [], "c": {}, "d": ""}, {}, ""),
        ({"a": 0, "b": False}, {}, "a"),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {}}}, "a.b.c"),
        ({"a": [{"b": 1}, {"c": 2}]}, {"a": [{"b": 1}, {}]}, "a[1].c"),
        ({"a": [1, 2]}, {"a": [1]}, "a[1]"),
        ({"a": {"b": 1}}, {"a": None}, "a.b"),
    ],
)
def test_what_is_missing_is_named(written, kept, field):
    assert dropped(written, kept) == field
