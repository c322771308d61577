import msgspec
import pytest

from dray.driver import AllocatedDevice
from dray.drivers.cpu.assignment import AssignmentError, CpuConfig, CpuParameters, Machine, assign_cpus
from dray.drivers.cpu.devices import make_devices
from dray.drivers.cpu.options import CpuOptions
from tests.drivers.cpu.machines import machine

# CPUs 0-3 and 8-11 are node 0, siblings are n and n+8.
TOPOLOGY = machine(nodes=2, cores=4)


def allocated(device="cpudevnuma000", cpus=None, cpuset="", **members):
    consumed = {} if cpus is None else {"dra.cpu/cpu": cpus}
    configs = [CpuParameters(cpu_config=CpuConfig(cpuset))] if cpuset else []
    return AllocatedDevice("n", device, "cpus", consumed_capacity=consumed, configs=configs, **members)


def one(*wanted, held=(), least_shared=0, given=None, **members):
    devices = make_devices(TOPOLOGY, msgspec.convert(given or {}, CpuOptions))
    (cpus,) = assign_cpus(Machine(TOPOLOGY, devices, least_shared), [allocated(*wanted, **members)], frozenset(held))
    return sorted(cpus)


def test_an_amount_of_a_group_is_so_many_of_its_free_cpus():
    assert one(cpus="2") == [0, 8]
    assert one(cpus="2", held=[0, 8]) == [1, 9]
    assert one("cpudevnuma001", cpus="3") == [4, 5, 12]


def test_parts_of_cpus_are_rounded_up():
    assert one(cpus="1500m") == [0, 8]


def test_without_an_amount_it_is_the_whole_group():
    assert one() == [0, 1, 2, 3, 8, 9, 10, 11]


def test_a_single_cpu_is_itself():
    individual = {"cpuDeviceMode": "individual"}
    assert one("cpudev003", given=individual) == [9]
    with pytest.raises(AssignmentError, match="device cpudev003: CPUs 9 are held by another claim"):
        one("cpudev003", given=individual, held=[9])


def test_results_of_one_claim_do_not_share_cpus():
    there = Machine(TOPOLOGY, make_devices(TOPOLOGY, CpuOptions()))
    first, second = assign_cpus(there, [allocated(cpus="4"), allocated(cpus="4")], frozenset())
    assert sorted(first | second) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert not first & second


def test_administrative_access_takes_nothing():
    assert one(admin_access=True, held=range(16)) == []


def test_reserved_cpus_are_never_given():
    assert one(given={"reservedCPUs": "0-1"}) == [2, 3, 8, 9, 10, 11]


def test_more_than_is_free_names_who_holds_it():
    with pytest.raises(AssignmentError, match=r"4 CPUs are allocated and 2 are free; .* hold 0-2,8-10"):
        one(cpus="4", held=[0, 1, 2, 8, 9, 10])


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(AssignmentError, match=r"cpudev000 is not on this machine, which has cpudevnuma000"):
        one("cpudev000")


def test_the_last_shared_cpu_is_not_given_away():
    with pytest.raises(AssignmentError, match=r"CPUs 4-7,12-15 would leave 0 CPUs .* reservedCPUs"):
        one("cpudevnuma001", cpus="8", held=[0, 1, 2, 3, 8, 9, 10, 11], least_shared=1)
    assert one("cpudevnuma001", cpus="7", held=[0, 1, 2, 3, 8, 9, 10, 11], least_shared=1)


def test_a_claim_names_its_cpus_where_devices_are_grouped_by_machine():
    by_machine = {"groupBy": "machine", "reservedCPUs": "0"}
    assert one("cpudevmachine", cpus="3", cpuset="2-3,9", given=by_machine) == [2, 3, 9]
    assert one("cpudevmachine", cpus="2", given=by_machine) == [1, 9]


@pytest.mark.parametrize(
    ("cpuset", "message"),
    [
        ("0-1", "CPUs 0 are reserved or not online"),
        ("2-40", "CPUs 16-40 are reserved or not online"),
        ("2-4", "are 3 CPUs and 2 are allocated"),
        ("5-6", "CPUs 5 are held by another claim"),
    ],
)
def test_named_cpus_that_cannot_be_had_are_refused(cpuset, message):
    with pytest.raises(AssignmentError, match=message):
        one("cpudevmachine", "2", cpuset, held=[5], given={"groupBy": "machine", "reservedCPUs": "0"})


def test_elsewhere_a_claim_does_not_name_its_cpus():
    with pytest.raises(AssignmentError, match="only where devices are grouped by machine"):
        one(cpus="1", cpuset="1")
