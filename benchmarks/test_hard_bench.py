"""Claims that are hard to search wait beside pods that are bound: nobody else may notice.

The claims are those of a Random(5): 16 requests on 16 devices with 32 constraints between pairs of them.
"""

import asyncio
import random
import time
import urllib.request

from benchmarks.test_scheduler_bench import DEVICES, DRIVER, PODS, free_port, loaded, node, pod, record

HARD_PODS = 5
CANARIES = 100
MOST_SECONDS = 0.1


def hard_devices(name):
    devices = [
        {
            "name": f"d{n}",
            "attributes": {"rack": {"int": n % 4}, "switch": {"int": n * 7 % 5}, "model": {"int": n % 3}},
        }
        for n in range(16)
    ]
    pool = {"name": f"hard-{name}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": f"hard.{DRIVER}", "nodeName": name, "pool": pool, "devices": devices}
    metadata = {"name": f"hard-{name}"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def hard_template(seed):
    dice = random.Random(seed)
    size = dice.choice([8, 10, 12, 14, 16])
    constraints = []
    for _ in range(32):
        requests = [f"q{each}" for each in dice.sample(range(size), 2)]
        kind = dice.choice(["distinctAttribute", "distinctAttribute", "matchAttribute"])
        attribute = f"hard.{DRIVER}/{dice.choice(['rack', 'switch', 'model'])}"
        constraints.append({"requests": requests, kind: attribute})
    requests = [{"name": f"q{n}", "exactly": {"deviceClassName": "hard", "count": 1}} for n in range(16)]
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": f"hard-{seed}"}}
    return {**body, "spec": {"spec": {"devices": {"requests": requests, "constraints": constraints}}}}


async def furnish(load):
    expression = f'device.driver == "hard.{DRIVER}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "hard"}, "spec": spec}
    await load.post(f"{DEVICES}/deviceclasses", made)
    names = [f"h{number}" for number in range(8)]
    await load.send(("/api/v1/nodes", node(name)) for name in names)
    await load.send((f"{DEVICES}/resourceslices", hard_devices(name)) for name in names)
    for seed in (5, 37):
        await load.post(f"{DEVICES}/namespaces/default/resourceclaimtemplates", hard_template(seed))


async def canaries(load, prefix):
    """The longest that one of the pods took to be bound."""
    longest = 0.0
    for number in range(CANARIES):
        name = f"{prefix}{number}"
        began = time.perf_counter()
        await load.post(PODS, pod(name, "one"))
        longest = max(longest, await load.bound([name]) - began)
        await asyncio.sleep(0.05)
    return longest


def loop_delay(port):
    """The longest that the loop of scheduler and controllers stood still."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("dray_event_loop_longest_delay_seconds "))


def test_hard_claims_beside_pods_that_are_bound(benchmark, tmp_path):
    async def hard(load):
        for seed in (5, 37):
            await load.send((PODS, pod(f"hard-{seed}-{number}", f"hard-{seed}")) for number in range(HARD_PODS))

    port = free_port()
    with loaded(tmp_path, 50, "--metrics-port", str(port)) as (ask, _):
        ask(furnish)
        alone = ask(lambda load: canaries(load, "a"))
        before = loop_delay(port)
        ask(hard)
        beside = ask(lambda load: canaries(load, "b"))
        delay = loop_delay(port)
    figures = {"alone": alone, "beside": beside, "delay_before": before, "delay": delay}
    record(benchmark, **{f"{name}_ms": round(seconds * 1e3, 1) for name, seconds in figures.items()})
    assert delay < MOST_SECONDS
