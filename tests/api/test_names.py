"""Formats of names."""

import pytest

from dray.api import names


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.is_label, ["a", "a-b", "0", "a" * 63], ["", "A", "-a", "a-", "a.b", "a" * 64, "a\n", "ü"]),
        (names.is_subdomain, ["a", "a.b-c.d", "a" * 253], ["", "a..b", ".a", "A.b", "a_b", "a" * 254, "a.\n"]),
        (names.is_label_key, ["a", "A_b.c", "x.io/A-b", "9"], ["", "/a", "x.io/", "a/b/c", "X.io/a", "a" * 64, "-a"]),
        (names.is_label_value, ["", "A_b.c", "a" * 63], ["-a", "a-", "a b", "a" * 64]),
        (names.is_identifier, ["a", "_a9", "pcieRoot"], ["", "9a", "a-b", "ä"]),
        (
            names.is_uuid,
            ["0123abcd-0123-0123-0123-0123456789ab"],
            ["", "0123ABCD-0123-0123-0123-0123456789ab", "0123abcd012301230123-0123456789ab"],
        ),
        (names.is_path_segment, ["a", "A:b"], [".", "..", "a/b", "a%b"]),
        (
            names.is_extended_resource,
            ["example.com/gpu"],
            ["gpu", "kubernetes.io/gpu", "requests.example.com/gpu", "example.com/"],
        ),
    ],
)
def test_formats(check, good, bad):
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


def test_limits_count_bytes():
    assert names.size("ü") == 2
