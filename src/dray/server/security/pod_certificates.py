"""PodCertificateRequests of nodes: a node asks for pods that run on it, as they are, and for what they mount."""

from __future__ import annotations

from dray.api import pod_references
from dray.api.objects import Object, annotations_of, spec_of, uid_of
from dray.api.pods import MIRROR_ANNOTATION
from dray.server.security.node_authorizer import ClusterView


def restrict(node: str, operation: str, subresource: str, request: Object, view: ClusterView) -> str | None:
    """Returns why the node may not request this certificate; None if it may."""
    if operation != "CREATE" or subresource:
        return f'unexpected operation "{operation}", node "{node}" can only create podcertificaterequests'
    spec, namespace = spec_of(request), str(request["metadata"].get("namespace") or "")
    if spec.get("nodeName") != node:
        return (
            f'PodCertificateRequest.Spec.NodeName="{spec.get("nodeName")}", which is not the requesting node "{node}"'
        )
    pod = view.get("", "pods", namespace, str(spec.get("podName")))
    where = f'"{namespace}/{spec.get("podName")}"'
    if pod is None or spec_of(pod).get("nodeName") != node:
        return f'pod {where} is not running on node "{node}" named in the PodCertificateRequest'
    if MIRROR_ANNOTATION in annotations_of(pod):
        return f"pod {where} is a mirror pod"
    if spec.get("serviceAccountName") != spec_of(pod).get("serviceAccountName"):
        return f"PodCertificateRequest for pod {where} contains a serviceAccountName that differs from the running pod"
    account = view.get("", "serviceaccounts", namespace, str(spec.get("serviceAccountName")))
    for member, found in (
        ("nodeUID", view.get("", "nodes", "", node)),
        ("podUID", pod),
        ("serviceAccountUID", account),
    ):
        if found is None or uid_of(found) != spec.get(member):
            return f"PodCertificateRequest for pod {where}: {member} is not that of the object which exists"
    wanted = {projection.get("signerName") for projection in pod_references.projections(pod, "podCertificate")}
    if spec.get("signerName") not in wanted:
        return f'pod {where} does not mount a podCertificate projected volume for signer "{spec.get("signerName")}"'
    return None
