from hypothesis import given
from hypothesis import strategies as st

from dray.store import keys as module
from dray.store.keys import SortedKeys

KEYS = st.text("ab/", max_size=4)


@given(st.sets(KEYS), st.lists(KEYS), KEYS, KEYS)
def test_like_a_sorted_set(initial, changes, prefix, after):
    keys, expected = SortedKeys(initial), set(initial)
    for key in changes:
        (keys.remove if key in expected else keys.add)(key)
        expected ^= {key}
    wanted = sorted(key for key in expected if key.startswith(prefix) and (key > after or not after))
    if not after and not prefix:
        wanted = [key for key in wanted if key]
    assert list(keys.under(prefix, after)) == wanted
    assert keys.count(prefix, after) == len(wanted)
    assert len(keys) == len(expected)
    assert keys.has(prefix) == any(key.startswith(prefix) for key in expected)


def test_chunks_split_and_vanish(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 2)
    names = [f"/{number:02}" for number in range(40)]
    keys = SortedKeys(names[::2])
    for name in names[1::2]:
        keys.add(name)
    assert list(keys.under("/")) == names
    assert list(keys.under("/1", "/14")) == names[15:20]
    assert keys.count("/1", "/14") == 5
    for name in names[:-1]:
        keys.remove(name)
    assert list(keys.under("/")) == names[-1:]
    assert len(keys._chunks) == 2
    assert [keys.has(prefix) for prefix in ("/2", "/3", "/4")] == [False, True, False]
    keys.add("!")
    assert list(keys.under("")) == ["!", names[-1]]
