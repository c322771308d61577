"""Devices of a slice: what is passed over breaks no rule."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api import schema
from dray.api.rules import Rules
from dray.api.validation import devices

NAMES = st.sampled_from(["model", "a.test/model", "A.Test/model", "a/b/c", "/x", "x/", "1x", "x" * 33, "é", ""])
TEXTS = st.sampled_from(["", "x" * 16, "x" * 64, "x" * 65, "é" * 16, "é" * 32, "é" * 33, "😀" * 17])
VERSIONS = st.sampled_from(["1.2.3", "1.2", "01.0.0", "1.0.0-" + "a" * 58, "1.0.0-" + "a" * 59])
VALUES = {
    "string": TEXTS,
    "version": VERSIONS,
    "int": st.integers(-(2**64), 2**64),
    "bool": st.booleans(),
    "ints": st.lists(st.integers(0, 3), max_size=3),
    "strings": st.lists(TEXTS, max_size=3),
}
ATTRIBUTES = st.lists(st.sampled_from(sorted(VALUES)), max_size=2, unique=True).flatmap(
    lambda members: st.fixed_dictionaries({member: VALUES[member] for member in members})
)
QUANTITIES = st.sampled_from(["80Gi", "1.5Gi", " 1", "0", "-1", "1e3", "1000", "x", "", 5, 1.5, True, None, [], {}])
CAPACITIES = st.fixed_dictionaries(
    {}, optional={"value": QUANTITIES, "requestPolicy": st.just({"default": "1"}), "x": st.just(1)}
)
DEVICES = st.fixed_dictionaries(
    {"name": st.sampled_from(["gpu-0", "GPU", "", "a" * 63, "a" * 64, "a.b"])},
    optional={
        "attributes": st.dictionaries(NAMES, ATTRIBUTES, max_size=4),
        "capacity": st.dictionaries(NAMES, st.just({"value": "1"}) | CAPACITIES, max_size=3),
        "allowMultipleAllocations": st.booleans(),
        "taints": st.just([{"key": "k", "effect": "nope"}]),
        "nodeName": st.just("n"),
    },
)


@settings(max_examples=400, deadline=None)
@given(DEVICES)
def test_an_ordinary_device_breaks_no_rule(device):
    read, problems = schema.read({"spec": {"devices": [device]}}, "resource_v1.ResourceSlice")
    if not problems:
        (device,) = read["spec"]["devices"]
        assert not devices.is_ordinary(device) or (
            list(devices.validate(device, "at", Rules())) == [] and not devices.is_detailed(device)
        )


def test_an_ordinary_device_has_few_attributes_and_capacities():
    entries = {f"a{index}": {"int": index} for index in range(20)}
    device = {"name": "gpu-0", "attributes": entries, "capacity": {key: {"value": "1"} for key in [*entries][:12]}}
    assert devices.is_ordinary(device)
    device["capacity"]["one-more"] = {"value": "1"}
    assert not devices.is_ordinary(device)
    assert len(list(devices.validate(device, "at", Rules()))) == 2


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(NAMES, ATTRIBUTES | CAPACITIES | QUANTITIES, max_size=4))
def test_a_small_struct_is_taken_over_only_if_reading_would_not_change_it(structs):
    """A map gives what its structs give when they are read one by one."""
    for type_name in ("resource_v1.DeviceAttribute", "resource_v1.DeviceCapacity", "resource_v1.Counter"):
        for read in (schema.read, lambda document, name: (schema.write(document, name), [])):
            together, found = read(structs, "{}" + type_name)
            for key, struct in structs.items():
                alone, problems = read(struct if struct is not None else {}, type_name)
                assert together[key] == alone
                assert {problem.detail for problem in problems} <= {problem.detail for problem in found}
            assert bool(found) == any(read(one if one is not None else {}, type_name)[1] for one in structs.values())
