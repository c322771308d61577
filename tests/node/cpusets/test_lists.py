import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.node.cpusets.lists import CpusetError, format_cpuset, parse_cpuset


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", []), ("\n", []), ("0", [0]), ("0-3,8\n", [0, 1, 2, 3, 8]), (" 2 , 1 ", [1, 2]), ("0-10:5", [0, 5, 10])],
)
def test_lists_of_the_kernel_are_read(text, cpus):
    assert parse_cpuset(text) == frozenset(cpus)


@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "3-1", "1,,2", "1:2:3", "0-3:0", "0-3:", "0-99999999999", "٣", "0x1", "1;2"]
)
def test_what_is_no_list_is_refused_with_the_text(text):
    with pytest.raises(CpusetError) as error:
        parse_cpuset(text)
    assert repr(text) in str(error.value)


def test_sets_are_written_in_ranges():
    assert format_cpuset([3, 1, 2, 8, 10, 11]) == "1-3,8,10-11"
    assert format_cpuset([]) == ""


@settings(deadline=None)
@given(st.sets(st.integers(0, 300)))
def test_what_is_written_is_read_again(cpus):
    assert parse_cpuset(format_cpuset(cpus)) == cpus
