"""Defaults of a Service."""

from __future__ import annotations

from dray.api.objects import Object

_HOUR = 3600
_SESSION_SECONDS = 3 * _HOUR
REACHED_FROM_OUTSIDE = ("LoadBalancer", "NodePort")


def default_service(service: Object) -> None:
    spec = service["spec"]
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", _SESSION_SECONDS)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port["targetPort"] in (0, ""):
            port["targetPort"] = port["port"]
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in REACHED_FROM_OUTSIDE or spec.get("externalIPs"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
