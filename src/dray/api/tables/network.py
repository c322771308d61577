"""Rows of endpoints, ingresses, network policies, runtime classes, flow control and autoscalers."""

from __future__ import annotations

from typing import Any

from dray.api import cluster_kinds as kinds
from dray.api.objects import Object, condition_of, mapping, status_of
from dray.api.tables.column import AGE, NAME, NONE, Column

_SHOWN = 3


def _few(values: list[str], most: int = _SHOWN) -> str:
    """A list that fits in a column."""
    if not values:
        return NONE
    more = len(values) - most
    return ",".join(values[:most]) + (f" + {more} more..." if more > 0 else "")


def _endpoints(endpoints: Object, now: str) -> str:
    found: list[str] = []
    for subset in endpoints.get("subsets") or []:
        hosts = [address["ip"] for address in subset.get("addresses") or []]
        ports = [port["port"] for port in subset.get("ports") or []]
        found += [f"{host}:{port}" for port in ports for host in hosts] if ports else hosts
    return _few(found)


def _slice_ports(endpoint_slice: Object, now: str) -> str:
    ports = endpoint_slice.get("ports") or []
    return _few([str(port["port"]) if port.get("port") is not None else "*" for port in ports]) if ports else "<unset>"


def _slice_endpoints(endpoint_slice: Object, now: str) -> str:
    found = [address for endpoint in endpoint_slice.get("endpoints") or [] for address in endpoint["addresses"] or []]
    return _few(found) if found else "<unset>"


def _hosts(ingress: Object, now: str) -> str:
    found = [rule["host"] for rule in ingress["spec"].get("rules") or [] if rule.get("host")]
    return _few(found) if found else "*"


def _load_balancers(ingress: Object, now: str) -> str:
    points = mapping(status_of(ingress).get("loadBalancer")).get("ingress") or []
    return ",".join(point.get("ip") or point.get("hostname") or "" for point in points)


def _parameters(ingress_class: Object, now: str) -> str:
    parameters = mapping(ingress_class["spec"].get("parameters"))
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters['kind']}{group}/{parameters['name']}"


def _selector(policy: Object, now: str) -> str:
    selector = mapping(policy["spec"].get("podSelector"))
    found = [f"{key}={value}" for key, value in sorted(mapping(selector.get("matchLabels")).items())]
    found += [
        f"{expression['key']} {expression['operator'].lower()} ({','.join(expression.get('values') or [])})"
        for expression in selector.get("matchExpressions") or []
    ]
    return ",".join(found) or NONE


def _spec(*path: str, missing: Any = "") -> Any:
    def cell(obj: Object, now: str) -> Any:
        value: Any = obj["spec"]
        for name in path:
            value = mapping(value).get(name)
        return missing if value is None else value

    return cell


def _parent(address: Object, now: str) -> str:
    parent = mapping(address["spec"].get("parentRef"))
    kind = f"{parent.get('resource', '')}{'.' + parent['group'] if parent.get('group') else ''}"
    return "/".join(filter(None, (kind, parent.get("namespace"), parent.get("name"))))


def _target(autoscaler: Object, now: str) -> str:
    reference = autoscaler["spec"]["scaleTargetRef"]
    return f"{reference['kind']}/{reference['name']}"


def _metrics(autoscaler: Object, now: str) -> str:
    found = []
    for metric in autoscaler["spec"].get("metrics") or []:
        resource = mapping(metric.get("resource"))
        target = mapping(resource.get("target"))
        name = f"{resource['name']}: " if resource else ""
        wanted = target.get("averageUtilization")
        found.append(f"{name}<unknown>/{f'{wanted}%' if wanted is not None else target.get('averageValue', '<auto>')}")
    return _few(found, 2)


def _registered(service: Object, now: str) -> str:
    target = mapping(service["spec"].get("service"))
    return f"{target.get('namespace')}/{target.get('name')}" if target else "Local"


def _available(service: Object, now: str) -> str:
    condition = condition_of(service, "Available") or {}
    reason = condition.get("reason")
    return f"{condition['status']} ({reason})" if condition.get("status") == "False" else condition.get("status", "")


def _dangling(schema: Object, now: str) -> str:
    return str((condition_of(schema, "Dangling") or {}).get("status") or "?")


COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "Endpoints"): (NAME, Column("Endpoints", _endpoints), AGE),
    (kinds.DISCOVERY_GROUP, "EndpointSlice"): (
        NAME,
        Column("AddressType", lambda obj, now: obj.get("addressType", "")),
        Column("Ports", _slice_ports),
        Column("Endpoints", _slice_endpoints),
        AGE,
    ),
    (kinds.NETWORKING_GROUP, "Ingress"): (
        NAME,
        Column("Class", _spec("ingressClassName", missing=NONE)),
        Column("Hosts", _hosts),
        Column("Address", _load_balancers),
        Column("Ports", lambda obj, now: "80, 443" if obj["spec"].get("tls") else "80"),
        AGE,
    ),
    (kinds.NETWORKING_GROUP, "IngressClass"): (
        NAME,
        Column("Controller", _spec("controller")),
        Column("Parameters", _parameters),
        AGE,
    ),
    (kinds.NETWORKING_GROUP, "NetworkPolicy"): (NAME, Column("Pod-Selector", _selector), AGE),
    (kinds.NETWORKING_GROUP, "IPAddress"): (NAME, Column("ParentRef", _parent), AGE),
    (kinds.NETWORKING_GROUP, "ServiceCIDR"): (
        NAME,
        Column("CIDRs", lambda obj, now: ",".join(obj["spec"].get("cidrs") or [])),
        AGE,
    ),
    (kinds.NODE_GROUP, "RuntimeClass"): (NAME, Column("Handler", lambda obj, now: obj.get("handler", "")), AGE),
    (kinds.FLOW_CONTROL_GROUP, "FlowSchema"): (
        NAME,
        Column("PriorityLevel", _spec("priorityLevelConfiguration", "name")),
        Column("MatchingPrecedence", _spec("matchingPrecedence", missing=0), type="integer"),
        Column("DistinguisherMethod", _spec("distinguisherMethod", "type", missing=NONE)),
        AGE,
        Column("MissingPL", _dangling),
    ),
    (kinds.FLOW_CONTROL_GROUP, "PriorityLevelConfiguration"): (
        NAME,
        Column("Type", _spec("type")),
        Column("NominalConcurrencyShares", _spec("limited", "nominalConcurrencyShares", missing=NONE)),
        Column("Queues", _spec("limited", "limitResponse", "queuing", "queues", missing=NONE)),
        Column("HandSize", _spec("limited", "limitResponse", "queuing", "handSize", missing=NONE)),
        Column("QueueLengthLimit", _spec("limited", "limitResponse", "queuing", "queueLengthLimit", missing=NONE)),
        AGE,
    ),
    (kinds.REGISTRATION_GROUP, "APIService"): (
        NAME,
        Column("Service", _registered),
        Column("Available", _available),
        AGE,
    ),
    (kinds.AUTOSCALING_GROUP, "HorizontalPodAutoscaler"): (
        NAME,
        Column("Reference", _target),
        Column("Targets", _metrics),
        Column("MinPods", _spec("minReplicas", missing="<unset>")),
        Column("MaxPods", _spec("maxReplicas", missing=0), type="integer"),
        Column("Replicas", lambda obj, now: status_of(obj).get("currentReplicas") or 0, type="integer"),
        AGE,
    ),
}
