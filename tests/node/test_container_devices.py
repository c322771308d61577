"""Which claims and requests a container uses, by its own words and by those of the pod's status."""

from dray.node.container_devices import ContainerClaim, container_claims
from dray.testing.objects import container, pod


def test_claims_of_entries_and_templates():
    user = container(resources={"claims": [{"name": "claim-0", "request": "a"}, {"name": "template-0"}]})
    made = pod("p", claims=["c"], templates=["t", "none"], containers=[user])
    made["status"] = {
        "resourceClaimStatuses": [
            {"name": "template-0", "resourceClaimName": "p-t-x"},
            {"name": "template-1"},
        ]
    }
    assert list(container_claims(made, user)) == [
        ContainerClaim("c", "a", "claim-0"),
        ContainerClaim("p-t-x", "", "template-0"),
    ]
    assert list(container_claims(made, container("other", claims=["template-1"]))) == []


def test_extended_resources_come_by_the_mappings_of_the_status():
    made = pod("p")
    mapped = [
        {"containerName": "main", "resourceName": "x.com/gpu", "requestName": "container-0-request-0"},
        {"containerName": "other", "resourceName": "x.com/gpu", "requestName": "container-1-request-0"},
    ]
    made["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "p-ext", "requestMappings": mapped}}
    assert list(container_claims(made, container())) == [ContainerClaim("p-ext", "container-0-request-0")]
