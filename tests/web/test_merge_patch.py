from hypothesis import given
from hypothesis import strategies as st

from dray.web.merge_patch import difference

documents = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.integers(0, 3) | st.text(max_size=2) | st.lists(st.integers(0, 2), max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=6,
    ),
)


def merged(target, patch):
    """RFC 7396, as it is written there."""
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), value)
    return made


@given(documents, documents)
def test_the_patch_makes_one_document_of_the_other(before, after):
    patch = difference(before, after)
    assert (patch is None) == (before == after)
    assert merged(before, patch or {}) == after
