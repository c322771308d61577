"""Defaults of a pod: what decoding fills in, and what the standard admission plugins add on create."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dray.api.objects import Object, mapping
from dray.api.pod_requests import effective
from dray.api.quantity import Quantity

_MILLI = -3
# What a pod may ask for as a whole.
_PODS_OWN = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"
_DEFAULT_MODE = 0o644
_MODE_VOLUMES = ("secret", "configMap", "downwardAPI", "projected")


def default_pod(pod: Object) -> None:
    spec = pod["spec"]
    default_pod_spec(spec)
    # Of pods alone: their templates keep what they say.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if mapping(spec.get("resources")).get("limits"):
        _default_pod_requests(spec, spec["resources"])


def _default_pod_requests(spec: Object, resources: Object) -> None:
    """A pod with limits as a whole asks for what its containers ask for, or else for its limits."""
    asked = {name: str(amount) for name, amount in effective(spec, _requested).items()}
    given = {**resources["limits"], **asked}
    requests = {name: amount for name, amount in given.items() if _is_pods_own(name)}
    requests.update(mapping(resources.get("requests")))
    if requests:
        resources["requests"] = requests


def _requested(container: Object) -> dict[str, Quantity]:
    return {name: Quantity.parse(amount) for name, amount in mapping(container["resources"].get("requests")).items()}


def default_pod_spec(spec: Object, *, template: bool = False) -> None:
    """A template leaves to its pods what follows from their other fields."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if not template:
        spec.setdefault("enableServiceLinks", True)
    _same_service_account(spec)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for container in containers(spec):
        _default_container(container, host_network=spec.get("hostNetwork", False) and not template)
        _default_resources(container["resources"], template=template)
    for container in spec.get("ephemeralContainers") or ():
        _default_container(container, host_network=False)
        _default_resources(container["resources"], template=template)
    if spec.get("overhead"):
        spec["overhead"] = _rounded(spec["overhead"])


def containers(spec: Object) -> Iterator[Object]:
    """Returns the init containers, then the containers."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _same_service_account(spec: Object) -> None:
    """Keeps `serviceAccount` and `serviceAccountName` equal; the newer name wins."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _default_volume(volume: Object) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for source in _MODE_VOLUMES:
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", _DEFAULT_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    for source in mapping(volume.get("projected")).get("sources") or ():
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _default_container(container: Object, *, host_network: bool) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port["containerPort"]
    for variable in container.get("env") or ():
        reference = mapping(variable.get("valueFrom")).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            _default_probe(container[name])
    for hook in mapping(container.get("lifecycle")).values():
        if isinstance(hook, dict) and hook.get("httpGet") is not None:
            _default_http(hook["httpGet"])


_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?P<name>(?:(?P<host>{_HOST})/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@\S+)?",
    re.ASCII,
)
_MAX_IMAGE_NAME = 255


def _pull_policy(image: str) -> str:
    """Always for the tag `latest`, which is also what no tag means; a text that names no image has no tag."""
    match = _IMAGE.fullmatch(image)
    if match is None or len(match["name"]) > _MAX_IMAGE_NAME or match["digest"]:
        return "IfNotPresent"
    return "Always" if match["tag"] in (None, "latest") else "IfNotPresent"


def _default_probe(probe: Object) -> None:
    for member, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(member):
            probe[member] = value
    if probe.get("httpGet") is not None:
        _default_http(probe["httpGet"])
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _default_http(action: Object) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _default_resources(resources: Object, *, template: bool) -> None:
    for member in ("limits", "requests"):
        if resources.get(member):
            resources[member] = _rounded(resources[member])
    if resources.get("limits") and not template:
        resources["requests"] = {**resources["limits"], **mapping(resources.get("requests"))}


def _rounded(amounts: dict[str, str]) -> dict[str, str]:
    """Rounds amounts of a pod up to thousandths."""
    return {name: str(Quantity.parse(amount).rounded(_MILLI)) for name, amount in amounts.items()}


_EVICTION_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def admit_pod(spec: Object, *, priority: int = 0, preemption_policy: str = "PreemptLowerPriority") -> None:
    """Sets the service account, the eviction tolerations and the priority of the pod's class."""
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = "default"
    _same_service_account(spec)
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", preemption_policy)
    tolerate_eviction(spec)


def tolerate_eviction(spec: Object) -> None:
    """Adds tolerations for not-ready and unreachable nodes, 300 seconds each, unless the pod states its own."""
    tolerations = list(spec.get("tolerations") or ())
    for key in _EVICTION_TOLERATIONS:
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    spec["tolerations"] = tolerations


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def qos_class(spec: Object) -> str:
    """Returns the QoS class: of pod-level resources if stated, else the common class of the containers."""
    whole = mapping(spec.get("resources"))
    if any(_is_pods_own(name) for member in ("requests", "limits") for name in whole.get(member) or ()):
        return _qos_class(whole)
    classes = {_qos_class(container["resources"]) for container in containers(spec)}
    return classes.pop() if len(classes) == 1 else "Burstable" if classes else "BestEffort"


def _qos_class(resources: Object) -> str:
    """Guaranteed: limits of cpu and memory, equal to the requests; BestEffort: neither of any."""
    stated = [
        {
            name: nanos
            for name in _PODS_OWN
            if (nanos := Quantity.parse(mapping(resources.get(member)).get(name, "0")).nanos)
        }
        for member in ("requests", "limits")
    ]
    requests, limits = stated
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if len(limits) == len(_PODS_OWN) and requests == limits else "Burstable"


def _is_pods_own(name: str) -> bool:
    return name in _PODS_OWN or name.startswith(_HUGE_PAGES)
