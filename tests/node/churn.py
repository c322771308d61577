"""Pods that come and go on the node of a `dray up --node`, and what must be true of them whatever was killed meanwhile.

Every container runs `_PROGRAM`: it takes locks named after its pod and its devices, and notes what somebody else
holds; it notes every start. A lock goes with its process, so a note in `twice` means two processes at one time.
"""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from dray.client.errors import ApiError, ClientError
from dray.client.interface import DeleteOptions
from dray.testing.cluster import kind_of
from dray.testing.objects import pod

_MOST = 8
MARK = "DRAY_KILL_TEST"
_PROGRAM = """
import fcntl, os, sys, time
place, name, seconds, codes = sys.argv[1:]
held = []
def take(what):
    file = open(f"{place}/held-{what}", "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print(f"{what} by {name}", file=open(f"{place}/twice", "a"))
    held.append(file)
take(name)
for each in os.environ:
    if each.startswith("GPU_"):
        take(each)
if os.environ.get("DRA_CPUS_HELD"):
    for each in os.sched_getaffinity(0):
        take(f"cpu-{each}")
open(f"{place}/starts-{name}", "a").write("x")
before = os.path.getsize(f"{place}/starts-{name}") - 1
codes = codes.split(",")
if codes[min(before, len(codes) - 1)] == "forever":
    time.sleep(1000)
time.sleep(float(seconds))
sys.exit(int(codes[min(before, len(codes) - 1)]))
"""
# Exit codes of the runs one after the other, the restart policy of the pod, and its phase in the end.
LIVES = {
    "good": ("0", "Never", "Succeeded"),
    "bad": ("3", "Never", "Failed"),
    "retried": ("1,0", "OnFailure", "Succeeded"),
    "kept": ("1,forever", "Always", "Running"),
    "lasting": ("forever", "Always", "Running"),
}


class Churn:
    def __init__(self, client, place: Path, rng, templates, node, *, image=""):
        """With an image, containers have files of their own, and Python and the place from the machine."""
        self.client = client
        self.place = place
        self.rng = rng
        self.templates = templates
        self.node = node
        self.image = image
        self.made: dict[str, str] = {}
        """Names of pods that are not deleted yet, and their lives."""
        self.count = 0
        self.stopped = False
        place.mkdir(exist_ok=True)

    async def create(self):
        life = self.rng.choice(list(LIVES))
        name = f"{life}-{self.count}"
        self.count += 1
        codes, policy, _ = LIVES[life]
        template = self.rng.choice([*self.templates, None])
        made = pod(name, templates=[template] if template else (), restartPolicy=policy, nodeName=None)
        seconds = str(self.rng.uniform(0, 0.6))
        (container,) = made["spec"]["containers"]
        container["command"] = ["python3", "-S", "-c", _PROGRAM, str(self.place), name, seconds, codes]
        container["env"] = [{"name": MARK, "value": str(self.place)}]
        if template == "cpu":
            container["env"].append({"name": "DRA_CPUS_HELD", "value": "1"})
        self.contain(made)
        made["spec"]["terminationGracePeriodSeconds"] = self.rng.choice([0, 1, 30])
        self.made[name] = life
        # Whoever is told to leave off has created it or will have: it is counted already.
        creating = self.surely(lambda: self.client.create(kind_of("Pod"), made, namespace="default"), "AlreadyExists")
        await asyncio.shield(creating)

    def contain(self, made):
        if not self.image:
            return
        (container,) = made["spec"]["containers"]
        container["image"], container["imagePullPolicy"] = self.image, "Never"
        if container["command"][0] == "python3":
            container["command"][0] = f"{sys.base_prefix}/bin/python3"
        paths = [str(self.place), "/usr", "/lib", "/lib64", sys.base_prefix]
        made["spec"]["volumes"] = [{"name": f"v{i}", "hostPath": {"path": each}} for i, each in enumerate(paths)]
        container["volumeMounts"] = [{"name": f"v{i}", "mountPath": each} for i, each in enumerate(paths)]

    async def delete(self, name):
        self.made.pop(name, None)
        grace = self.rng.choice([None, None, 1, 0])
        options = DeleteOptions(grace_period=grace)
        await self.surely(
            lambda: self.client.delete(kind_of("Pod"), name, namespace="default", options=options), "NotFound"
        )

    async def surely(self, call, fine):
        """Tries while the server is away."""
        while True:
            try:
                return await call()
            except ApiError as error:
                if error.reason == fine:
                    return None
                if error.status < 500:
                    raise
            except (ClientError, OSError):
                pass
            await asyncio.sleep(0.1)

    async def run(self):
        """Until it is `stopped`; whatever it was creating is there then."""
        self.stopped = False
        while not self.stopped:
            if len(self.made) < _MOST:
                await self.create()
            if self.made and self.rng.random() < 0.35:
                await self.delete(self.rng.choice(sorted(self.made)))
            await asyncio.sleep(self.rng.uniform(0, 0.3))

    async def pods(self):
        found = await self.surely(lambda: self.client.list(kind_of("Pod"), namespace="default"), "")
        return {each["metadata"]["name"]: each for each in found["items"]}

    # What must be true

    async def drain(self, within):
        """Every pod gets where it should; those that last are deleted once they run, and so others get devices."""
        there: dict = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self.made:
                    there = await self.pods()
                    for name, life in [each for each in self.made.items() if each[0] in there]:
                        await self.take_leave(name, life, there[name]["status"])
                    await asyncio.sleep(0.2)
                return
        raise AssertionError({name: (there.get(name, {}).get("status"), self.starts(name)) for name in self.made})

    async def take_leave(self, name, life, status):
        phase, (codes, _, wanted) = status.get("phase"), LIVES[life]
        runs = len(codes.split(","))
        if phase in ("Succeeded", "Failed") or (phase == wanted and self.starts(name) >= runs):
            assert (phase, self.starts(name)) == (wanted, runs), (name, status)
            await self.delete(name)

    def starts(self, name):
        path = self.place / f"starts-{name}"
        return path.stat().st_size if path.exists() else 0

    async def empty(self, within):
        """Nothing is left at the API server."""
        left = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while True:
                    pods = list(await self.pods())
                    claims = await self.surely(
                        lambda: self.client.list(kind_of("ResourceClaim"), namespace="default"), ""
                    )
                    left = pods, [each["metadata"]["name"] for each in claims["items"]]
                    if not any(left):
                        return
                    await asyncio.sleep(0.1)
        raise AssertionError(f"left after {within} s: {left}")


def processes(mark: bytes):
    """Command lines, by pid, of processes whose command, working directory or environment has the mark, a path."""
    found = {}
    for each in Path("/proc").iterdir():
        if not each.name.isdigit() or int(each.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            command = (each / "cmdline").read_bytes()
            there = os.fsencode(os.readlink(each / "cwd"))
            if mark in command or there.startswith(mark) or mark in (each / "environ").read_bytes():
                found[int(each.name)] = command.replace(b"\0", b" ").decode(errors="replace")[-200:]
    return found
