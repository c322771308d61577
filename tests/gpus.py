"""GPUs of a driver as the scheduler's tests have them: their slices and classes, and pods that leave at once."""

from dray.testing import objects
from dray.testing.objects import DRIVER

GPU = "deviceclass.resource.kubernetes.io/gpu"


def gpu(name, *, kind="gpu", attributes=None, **members):
    """`kind` is what tells GPUs from the other devices of the driver."""
    return objects.device(name, attributes={"kind": kind, **(attributes or {})}, **members)


def slice_of(node, count=4, **members):
    """The GPUs of a node, two on each PCIe root."""
    devices = [gpu(f"gpu-{n}", attributes={"root": f"r{n // 2}"}, **members) for n in range(count)]
    return objects.resource_slice(node, *devices, nodeName=node)


def device_class(name, kind=None, **members):
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].kind == '{kind or name}'"
    return objects.device_class(name, expression, **members)


def pod(name, *, cpu=None, requests=None, container=None, **members):
    """`container` has further members of its container."""
    requests = {**({"cpu": cpu} if cpu else {}), **(requests or {})}
    made = objects.pod(name, requests=requests, **{"terminationGracePeriodSeconds": 0, **members})
    made["spec"]["containers"][0].update(container or {})
    return made


def results(claim):
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def held(claim):
    """The names of the devices that a claim holds."""
    return [each["device"] for each in results(claim)]
