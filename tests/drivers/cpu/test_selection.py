from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.drivers.cpu.selection import select_cpus
from tests.drivers.cpu.machines import machine

# CPU n and n+8 are siblings; L3 caches have cores 0-3 and 4-7.
TWO_CACHES = machine(caches=2, cores=4)


def chosen(count, *, taken=(), topology=TWO_CACHES):
    return sorted(select_cpus(topology, topology.online - frozenset(taken), count))


def test_two_cpus_are_one_core():
    assert chosen(2) == [0, 8]


def test_three_cpus_are_a_core_and_half_of_another_under_one_cache():
    assert chosen(3) == [0, 1, 8]


def test_a_single_cpu_comes_from_a_core_that_is_in_use_in_part():
    assert chosen(1, taken=[0]) == [8]
    assert chosen(3, taken=[4]) == [5, 12, 13]


def test_cpus_stay_under_one_cache_though_another_has_lower_numbers():
    assert chosen(8, taken=[0]) == [4, 5, 6, 7, 12, 13, 14, 15]


def test_the_cache_that_fits_best_is_taken_so_that_the_other_stays_whole():
    assert chosen(2, taken=[4, 12, 5, 13]) == [6, 14]


def test_whole_cores_are_worth_more_than_a_good_fit():
    # Cache 1 has two halves of cores left, cache 0 all of its cores.
    assert chosen(2, taken=[4, 5, 6, 14, 7, 15]) == [0, 8]


def test_more_than_a_cache_has_takes_one_whole_and_the_rest_in_whole_cores():
    assert chosen(10) == [0, 1, 2, 3, 4, 8, 9, 10, 11, 12]


def test_numa_nodes_are_not_crossed_without_need():
    two_nodes = machine(nodes=2, cores=4)
    assert chosen(6, taken=[0, 8, 1, 9], topology=two_nodes) == [4, 5, 6, 12, 13, 14]


def test_isolated_cpus_go_first():
    assert chosen(2, topology=replace(TWO_CACHES, isolated=frozenset({6, 14}))) == [6, 14]


def test_too_many_are_refused():
    with pytest.raises(ValueError, match="17 CPUs are asked for and 16 are free"):
        chosen(17)


@settings(deadline=None)
@given(st.sets(st.integers(0, 31)), st.data())
def test_any_number_of_free_ones_is_found_and_cores_are_broken_at_most_once(taken, data):
    topology = machine(sockets=2, caches=2, cores=4)
    free = topology.online - taken
    count = data.draw(st.integers(0, len(free)))
    cpus = select_cpus(topology, free, count)
    assert len(cpus) == count
    assert cpus <= free
    newly_broken = [core for core in topology.cores.values() if core <= free and 0 < len(core & cpus) < len(core)]
    assert len(newly_broken) <= 1
