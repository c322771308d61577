"""Nodes, devices, claims and pods of the tests of the scheduler's loop."""

DRIVER = "gpu.example.com"


def node(name, *, cpu="8", pods="30", labels=None, taints=None, **status):
    allocatable = {"cpu": cpu, "memory": "32Gi", "pods": pods}
    spec = {"taints": taints} if taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": allocatable, "allocatable": allocatable, **status},
    }


def gpu(name, *, kind="gpu", **more):
    attributes = {"kind": {"string": kind}, **more.pop("attributes", {})}
    return {"name": name, "attributes": attributes, **more}


def resource_slice(name, devices, *, pool=None, node=None, count=1, generation=1, **spec):
    where = {"nodeName": node} if node else {"allNodes": True}
    held = {"devices": devices} if devices else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool or name, "generation": generation, "resourceSliceCount": count},
            **where,
            **held,
            **spec,
        },
    }


def gpus_of(node, count=4, **more):
    """A slice with the GPUs of a node, two on each PCIe root."""
    devices = [gpu(f"gpu-{n}", attributes={"root": {"string": f"r{n // 2}"}}, **more) for n in range(count)]
    return resource_slice(node, devices, node=node)


def device_class(name, kind=None, **spec):
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].kind == '{kind or name}'"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
    }


def request(name="r", device_class="gpu", count=1, **more):
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **more}
    return {"name": name, "exactly": exactly}


def devices(*requests, **more):
    return {"devices": {"requests": list(requests) or [request()], **more}}


def claim(name, spec=None):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": spec or devices(),
    }


def template(name, spec=None):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": spec or devices()},
    }


def pod(name, *, templates=(), claims=(), cpu=None, requests=None, priority=None, grace=0, labels=None, **spec):
    """`templates` and `claims` are names; `priority` that of a class."""
    entries = [{"name": f"t{n}", "resourceClaimTemplateName": each} for n, each in enumerate(templates)]
    entries += [{"name": f"c{n}", "resourceClaimName": each} for n, each in enumerate(claims)]
    amounts = {**({"cpu": cpu} if cpu else {}), **(requests or {})}
    resources = {"requests": amounts, "limits": requests or {}} if amounts else {}
    if entries:
        resources["claims"] = [{"name": each["name"]} for each in entries]
        spec["resourceClaims"] = entries
    container = {"name": "main", "image": "busybox", "resources": resources, **spec.pop("container", {})}
    if priority:
        spec["priorityClassName"] = priority
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": grace, **spec},
    }


def priority_class(name, value, **more):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def results(claim):
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def held(claim):
    """The names of the devices that a claim holds."""
    return [each["device"] for each in results(claim)]
