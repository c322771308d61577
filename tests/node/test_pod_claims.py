"""Which claims a pod may use on its node: names from spec and status, owners, reservations, also of its PodGroup."""

import pytest

from dray.api.gates import ALL_GATES, DEFAULT_GATES
from dray.node.errors import PrepareError
from dray.node.pod_claims import PodClaims, claims_to_prepare
from dray.testing.objects import allocation, claim, pod

ALLOCATED = {"allocation": allocation("gpu-0", pool="worker")}


class Server:
    def __init__(self, stored):
        self._stored = stored

    async def get(self, resource, name, *, namespace):
        return self._stored


def user(**members):
    return pod("p", templates=["t"], uid="pod-uid", namespace="default", **members) | {
        "status": {"resourceClaimStatuses": [{"name": "template-0", "resourceClaimName": "c"}]}
    }


def generated(owner, *reserved, **status):
    return claim(
        "c",
        uid="claim-uid",
        namespace="default",
        ownerReferences=[{"controller": True, **owner}],
        status={**ALLOCATED, "reservedFor": list(reserved), **status},
    )


OWN = {"kind": "Pod", "uid": "pod-uid"}
GROUP = {"kind": "PodGroup", "name": "gang", "uid": "group-uid"}
BY_POD = {"resource": "pods", "name": "p", "uid": "pod-uid"}
BY_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "group-uid"}


async def test_a_generated_claim_must_be_the_pods_own():
    assert await PodClaims(Server(generated(OWN, BY_POD)), DEFAULT_GATES).usable(user())
    other = generated({"kind": "Pod", "uid": "another"}, BY_POD)
    with pytest.raises(PrepareError, match="was not created for pod p"):
        await PodClaims(Server(other), DEFAULT_GATES).usable(user())


async def test_the_claim_of_the_pods_group_needs_its_gate():
    member = user(schedulingGroup={"podGroupName": "gang"})
    shared = generated(GROUP, BY_GROUP)
    assert await PodClaims(Server(shared), ALL_GATES).usable(member)
    with pytest.raises(PrepareError):
        await PodClaims(Server(shared), DEFAULT_GATES).usable(member)
    with pytest.raises(PrepareError):
        await PodClaims(Server(shared), ALL_GATES).usable(user(schedulingGroup={"podGroupName": "others"}))
    with pytest.raises(PrepareError):
        await PodClaims(Server(shared), ALL_GATES).usable(user())


async def test_skipped_operations_need_their_gate():
    results = {
        "devices": {"results": [{**ALLOCATED["allocation"]["devices"]["results"][0], "skipNodeOperations": "*"}]}
    }
    skipping = generated(OWN, BY_POD, allocation=results)
    assert await PodClaims(Server(skipping), ALL_GATES).usable(user())
    with pytest.raises(PrepareError, match="DRAOptionalNodeOperations is off"):
        await PodClaims(Server(skipping), DEFAULT_GATES).usable(user())


def test_the_claim_for_extended_resources_comes_last():
    made = user()
    made["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "ext", "requestMappings": []}
    assert list(claims_to_prepare(made)) == [("c", True), ("ext", True)]
