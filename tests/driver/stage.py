"""A stage for drivers: a cluster, a kubelet double and a driver that is registered, and claims with given devices."""

from contextlib import asynccontextmanager

from tests.node.clusters import NODE, kubelet_on_cluster

from .gpu_driver import DRIVER, GpuDriver


@asynccontextmanager
async def stage(driver=None, *, kubelet_options=None, **options):
    """A cluster, a kubelet and a driver that is registered."""
    async with kubelet_on_cluster(**(kubelet_options or {})) as (cluster, kubelet):
        driver = driver(kubelet) if driver else GpuDriver(kubelet.root / "hardware")
        async with kubelet.running(driver, **options):
            await kubelet.registered(DRIVER)
            yield cluster, kubelet, driver
            assert "twice" not in "".join(driver.asked)


def result(device, name="gpu", **members):
    return {"request": name, "driver": DRIVER, "pool": NODE, "device": device, **members}


def one(name, device="gpu-0", **members):
    """A claim with one device."""
    return name, [result(device, **members)]


def nothing_left(kubelet, driver):
    """No half of anything: no device, no CDI file, no record of the driver, nothing at the kubelet."""
    records = [path.name for path in (kubelet.root / "plugins" / DRIVER / "claims").iterdir()]
    files = [path.name for path in kubelet.cdi.iterdir()]
    return (driver.in_use, files, records, kubelet.prepared_claims) == ([], [], [], {})


async def slices(cluster):
    """The uids of all ResourceSlices."""
    return sorted(each["metadata"]["uid"] for each in await cluster.list("ResourceSlice"))
