from hypothesis import given
from hypothesis import strategies as st

from dray.api.objects import key_of
from dray.client.cache import Cache

from .scripted import claim

OBJECTS = st.builds(
    lambda name, namespace, uid, version, nodes: claim(name, version, namespace=namespace, uid=uid, nodes=nodes),
    st.sampled_from("abc"),
    st.sampled_from(["", "n", "m"]),
    st.sampled_from("uv"),
    st.integers(1, 4),
    st.lists(st.sampled_from("xy"), max_size=2),
)
ACTIONS = st.one_of(
    st.tuples(st.just("put"), OBJECTS),
    st.tuples(st.just("remove"), OBJECTS),
    st.tuples(st.just("replace"), st.lists(OBJECTS, max_size=4)),
)


def check(cache, expected):
    assert {key_of(value): value for value in cache} == expected
    assert len(cache) == len(expected)
    for namespace in ("", "n", "m"):
        present = [value for key, value in expected.items() if key[0] == namespace]
        assert sorted(map(key_of, cache.in_namespace(namespace))) == sorted(map(key_of, present))
        for name in "abc":
            assert cache.get(name, namespace=namespace) == expected.get((namespace, name))
    for node in "xy":
        found = [value for value in expected.values() if node in value["nodes"]]
        assert sorted(map(key_of, cache.by("node", node))) == sorted(map(key_of, found))


@given(st.lists(st.tuples(ACTIONS, st.booleans())))
def test_changes_lead_from_one_state_to_the_next(actions):
    """Somebody looks after some of the changes, and in the end."""
    cache = Cache({"node": lambda value: value["nodes"]})
    followed = {}
    for (action, value), looked_at in actions:
        changes = getattr(cache, action)(key_of(value) if action == "remove" else value)
        for change in changes:
            assert change.previous == followed.get(change.key)
            if change.type == "DELETED":
                del followed[change.key]
            else:
                assert (change.type == "ADDED") == (change.key not in followed)
                followed[change.key] = change.object
        if looked_at:
            check(cache, followed)
        if action == "replace":
            assert set(followed) == {key_of(each) for each in value}
    check(cache, followed)


def test_the_same_version_is_no_change():
    cache = Cache()
    cache.put(claim("a", 1))
    assert cache.put(claim("a", 1)) == []
    assert [change.type for change in cache.put(claim("a", 2))] == ["MODIFIED"]


def test_made_anew_is_deleted_and_added():
    cache = Cache()
    cache.put(claim("a", 1, uid="one"))
    assert [change.type for change in cache.replace([claim("a", 9, uid="two")])] == ["DELETED", "ADDED"]


def test_objects_without_versions_are_replaced():
    cache = Cache()
    cache.put({"metadata": {"name": "a"}, "x": 1})
    assert [change.type for change in cache.put({"metadata": {"name": "a"}, "x": 2})] == ["MODIFIED"]
    assert cache.get("a")["x"] == 2


def test_the_last_state_is_told():
    cache = Cache()
    cache.put(claim("a", 1))
    (change,) = cache.remove(("default", "a"), claim("a", 5))
    assert (change.object, change.previous) == (claim("a", 5), claim("a", 1))
    assert cache.remove(("default", "a")) == []
