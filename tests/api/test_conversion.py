"""Conversion between versions: nothing is lost in either direction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api import schema
from dray.api.conversion import ConversionError, convert

GROUP = "resource.k8s.io"
names = st.sampled_from(["a", "b", "gpu"])
selectors = st.lists(st.just({"cel": {"expression": "true"}}), min_size=1, max_size=2)
exact_members = st.fixed_dictionaries(
    {"deviceClassName": names},
    optional={
        "selectors": selectors,
        "allocationMode": st.sampled_from(["All", "ExactCount"]),
        "count": st.integers(1, 9),
        "adminAccess": st.booleans(),
        "tolerations": st.lists(st.just({"operator": "Exists"}), min_size=1, max_size=1),
        "capacity": st.just({"requests": {"memory": "1Gi"}}),
        "derivedAttributes": st.just([{"name": "x.io/a", "expression": "1"}]),
    },
)
subrequests = st.lists(exact_members.map(lambda m: {"name": "s", **m}), min_size=1, max_size=2)
requests = st.lists(
    st.one_of(
        st.builds(lambda n, e: {"name": n, "exactly": e}, names, exact_members),
        st.builds(lambda n, f: {"name": n, "firstAvailable": f}, names, subrequests),
    ),
    max_size=3,
)
devices = st.lists(
    st.fixed_dictionaries(
        {"name": names},
        optional={
            "attributes": st.just({"model": {"string": "x"}}),
            "capacity": st.just({"memory": {"value": "1Gi"}}),
            "taints": st.just([{"key": "k", "effect": "NoSchedule"}]),
            "allNodes": st.just(True),
            "futureField": st.integers(),
        },
    ),
    max_size=3,
)
node_fields = st.sampled_from([{"nodeName": "n"}, {"allNodes": True}, {"perDeviceNodeSelection": True}])


def claim(items, kind="ResourceClaim"):
    spec = {"devices": {"requests": items, "constraints": [{"matchAttribute": "x.io/a"}]}}
    if kind == "ResourceClaimTemplate":
        spec = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "c"}, "spec": spec}


def resource_slice(items, node):
    spec = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, **node, "devices": items}
    return {"apiVersion": f"{GROUP}/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}


def there_and_back(document):
    for version in ("v1beta2", "v1beta1"):
        assert convert(convert(document, version), "v1") == document
    assert convert(convert(convert(document, "v1beta1"), "v1beta2"), "v1") == document


@given(requests)
def test_claims_survive(items):
    there_and_back(claim(items))
    there_and_back(claim(items, "ResourceClaimTemplate"))


@given(devices, node_fields)
def test_slices_survive(items, node):
    there_and_back(resource_slice(items, node))


@given(requests)
def test_v1beta1_survives_a_trip_through_v1(items):
    old = schema.write(convert(claim(items), "v1beta1"), "resource_v1beta1.ResourceClaim")
    assert schema.write(convert(convert(old, "v1"), "v1beta1"), "resource_v1beta1.ResourceClaim") == old


@given(requests)
def test_the_original_is_left_alone(items):
    document = claim(items)
    before = repr(document)
    convert(document, "v1beta1")
    assert repr(document) == before


def test_v1beta1_requests_are_flat():
    document = claim([{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}])
    assert convert(document, "v1beta1")["spec"]["devices"]["requests"] == [
        {"name": "r", "deviceClassName": "gpu", "count": 2}
    ]


@pytest.mark.parametrize(
    ("request_v1beta1", "request_v1"),
    [
        ({"name": "r"}, {"name": "r"}),
        ({"name": "r", "deviceClassName": "", "count": 0}, {"name": "r"}),
        ({"name": "r", "adminAccess": False}, {"name": "r", "exactly": {"adminAccess": False}}),
        ({"name": "r", "tolerations": []}, {"name": "r", "exactly": {"tolerations": []}}),
        (
            {"name": "r", "deviceClassName": "c", "firstAvailable": [{"name": "s"}]},
            {"name": "r", "exactly": {"deviceClassName": "c"}, "firstAvailable": [{"name": "s"}]},
        ),
    ],
)
def test_which_members_make_an_exact_request(request_v1beta1, request_v1):
    document = {**claim([request_v1beta1]), "apiVersion": f"{GROUP}/v1beta1"}
    assert convert(document, "v1")["spec"]["devices"]["requests"] == [request_v1]


def test_v1beta1_zero_values_of_a_slice_mean_absent():
    document = {**resource_slice([{"name": "d"}], {"nodeName": "", "allNodes": False})}
    document["apiVersion"] = f"{GROUP}/v1beta1"
    assert not {"nodeName", "allNodes"} & set(convert(document, "v1")["spec"])


@pytest.mark.parametrize(
    "spec",
    [None, 5, [], {"devices": 5}, {"devices": {"requests": {"a": 1}}}, {"devices": {"requests": [{"exactly": [5]}]}}],
)
def test_malformed_documents_pass_through(spec):
    document = {"apiVersion": f"{GROUP}/v1beta1", "kind": "ResourceClaim", "spec": spec}
    assert convert(document, "v1")["spec"] == spec
    assert convert({**document, "apiVersion": f"{GROUP}/v1"}, "v1beta1")["spec"] == spec


@pytest.mark.parametrize(
    ("api_version", "kind", "version", "problem"),
    [
        ("resource.k8s.io/v1", "ResourceClaim", "v7", "has no version 'v7'"),
        ("resource.k8s.io/v1", "Nothing", "v1", "not a kind"),
        ("resource.k8s.io/v1", "DeviceTaintRule", "v1beta1", "v1, v1beta2, v1alpha3"),
    ],
)
def test_unknown_versions_are_named(api_version, kind, version, problem):
    with pytest.raises(ConversionError, match=problem):
        convert({"apiVersion": api_version, "kind": kind}, version)
