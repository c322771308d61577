from hypothesis import given
from hypothesis import strategies as st

from dray.store.log import SortedKeys

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
    assert keys.count_under(prefix, after) == len(wanted)
    assert len(keys) == len(expected)
    assert keys.has(prefix) == any(key.startswith(prefix) for key in expected)
