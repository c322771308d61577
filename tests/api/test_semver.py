"""Semantic versions: the grammar and the order of precedence."""

from itertools import pairwise

import pytest

from dray.api.semver import Semver, SemverError

# The precedence chain that the specification gives, and releases around it.
ASCENDING = """
    0.9.9 1.0.0-0 1.0.0-2 1.0.0-11 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11
    1.0.0-rc.1 1.0.0 1.0.1 1.2.0 1.10.0 2.0.0
""".split()


def test_order():
    versions = [Semver.parse(text) for text in ASCENDING]
    assert sorted(set(versions)) == versions
    assert all(a < b for a, b in pairwise(versions))


def test_build_metadata_does_not_count():
    assert Semver.parse("1.2.3+a") == Semver.parse("1.2.3+b")
    assert hash(Semver.parse("1.2.3+a")) == hash(Semver.parse("1.2.3"))


@pytest.mark.parametrize("text", ["1.2.3-rc.1+build.5", "0.0.0", "1.2.3--", "10.20.30"])
def test_text_survives(text):
    assert str(Semver.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-01", "1.2.3-", "1.2.3+", "1.2.3\n", "1.2." + "9" * 30],
)
def test_what_is_not_a_version_is_refused(text):
    with pytest.raises(SemverError):
        Semver.parse(text)
