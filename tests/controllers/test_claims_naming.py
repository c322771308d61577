import re

from hypothesis import given
from hypothesis import strategies as st

from dray.api.names import is_subdomain
from dray.controllers.claims.owners import claim_name, generate_name

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
PODS = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?", fullmatch=True).filter(is_subdomain)


def test_the_parts_are_joined_and_end_with_a_hyphen():
    assert generate_name("p1", "gpu") == "p1-gpu-"
    assert generate_name("p" * 50, "gpus") == "p" * 50 + "-gpus-"
    assert len(generate_name("p" * 51, "gpus")) == 57


def test_a_name_too_long_is_cut_in_proportion_and_loses_the_last_hyphen():
    assert generate_name("p" * 50, "c" * 20) == "p" * 39 + "-" + "c" * 15
    assert generate_name("p" * 253, "gpu") == "p" * (253 * 57 // 258) + "-"


def test_a_cut_at_a_dot_leaves_a_valid_name():
    owner = "p" * 38 + "." + "q" * 11
    assert generate_name(owner, "c" * 20) == "p" * 38 + "-" + "c" * 15


def test_the_name_looks_as_if_the_server_had_completed_it():
    name = claim_name("p1", "uid-1", "gpu")
    assert re.fullmatch(r"p1-gpu-[bcdfghjklmnpqrstvwxz2456789]{5}", name)


def test_the_name_follows_from_owner_entry_and_what_to_avoid():
    name = claim_name("p1", "uid-1", "gpu")
    assert name == claim_name("p1", "uid-1", "gpu")
    others = {
        claim_name("p1", "uid-2", "gpu"),
        claim_name("p1", "uid-1", "nic"),
        claim_name("p1", "uid-1", "gpu", name),
    }
    assert len(others | {name}) == 4


@given(PODS, LABELS, st.text(max_size=8))
def test_every_name_is_valid_and_short_enough(owner, entry, uid):
    name = claim_name(owner, uid, entry)
    assert len(name) <= 62
    assert is_subdomain(name)
