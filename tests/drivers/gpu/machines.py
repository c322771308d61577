"""Machines with GPUs, made of files: a library with NVML's symbols, sysfs, /proc, device files, the vendor's programs.

What a machine has comes from the fleet's machine types, so that a driver on it publishes what the fleet does. The
state of its GPUs is in files (`nvml_stand_in`): calls and commands in the order they came, modes, instances.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

from dray.api.quantity import Quantity
from dray.fleet.choice import choose

SOURCES = Path(__file__).parent / "nvml_stand_in"
FEW_SYMBOLS = Path(__file__).parent / "nvml_few_symbols"
SONAME = "libnvidia-ml.so.1"
DRIVER_VERSION = "580.105.08"
ARCHITECTURES = {"Turing": 6, "Ampere": 7, "Ada Lovelace": 8, "Hopper": 9, "Blackwell": 10}
BRANDS = {"GeForce": 5, "Nvidia": 14}
ADDRESSING = {"None": 0, "HMM": 1, "ATS": 2}
# By id of the profile: NVML's index, and how many of it fit.
PROFILES = {19: (0, 7), 14: (1, 3), 9: (2, 2), 5: (3, 1), 0: (4, 1), 20: (7, 1), 15: (9, 4)}
NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")

NVIDIA_SMI = """#!/bin/sh
echo "nvidia-smi $*" >> {state}/calls
for gpu in {state}/gpus/*; do
    if grep -q "^uuid $3$" $gpu/facts && [ -e $gpu/sick -o -e $gpu/deaf -o -e $gpu/lost ]; then
        echo "Unable to determine the device handle for GPU: Unknown Error"
        exit 255
    fi
done
while [ -e {state}/hang/nvidia-smi ]; do sleep 0.1; done
if [ -e {state}/fail/nvidia-smi ]; then cat {state}/fail/nvidia-smi; exit 255; fi
echo "$5" > {state}/slice.$$
mv {state}/slice.$$ {state}/slices/$3
"""
MPS_CONTROL = """#!/bin/sh
alive() {{ [ -s "$pid" ] && tr -d '\\0' < "/proc/$(cat "$pid")/cmdline" 2>/dev/null | grep -q .; }}
pid="$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
if [ "$1" = -d ]; then
    echo "nvidia-cuda-mps-control $* CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES" >> {state}/calls
    if [ -e {state}/fail/mps ]; then cat {state}/fail/mps; exit 1; fi
    if alive; then
        echo "An instance of this daemon is already running"
        exit 1
    fi
    touch "/dev/shm/mps-of-$(basename "$(dirname "$CUDA_MPS_PIPE_DIRECTORY")")"
    setsid sleep 86400 < /dev/null > "$CUDA_MPS_LOG_DIRECTORY/control.log" 2>&1 &
    echo $! > "$pid"
    exit 0
fi
read -r command
echo "nvidia-cuda-mps-control: $command" >> {state}/calls
if ! alive; then echo "Cannot find MPS control daemon process"; exit 1; fi
if [ "$command" = quit ]; then kill "$(cat "$pid")"; fi
"""


def compile_library(directory, sources=SOURCES):
    """None where there is no compiler."""
    library = directory / SONAME
    command = ["gcc", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{SONAME}", "-o", str(library)]
    command += map(str, sorted(sources.glob("*.c")))
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        return None
    return library


def gpus_of(machine_type, count=None):
    return choose([f"{machine_type}=1"]).machines[0].gpus[:count]


class GpuMachine:
    """`mig` are the numbers of GPUs whose MIG mode is on."""

    def __init__(self, root, library, gpus, mig=()):
        self.root = root
        self.root_of_daemons = root
        self.gpus = gpus
        self.state = root / "state"
        self.driver_root = root / "driver"
        for name in ("gpus", "fail", "hang", "told", "called", "events", "slices"):
            (self.state / name).mkdir(parents=True)
        (self.state / "driver").write_text(f"{DRIVER_VERSION} 13000")
        (self.state / "calls").touch()
        for number, gpu in enumerate(gpus):
            self._write_gpu(number, gpu, number in mig)
            self._write_sysfs(gpu)
        self._write_devices()
        self._write_driver(library)

    def settings(self, **changes):
        places = {
            "driverRoot": str(self.driver_root),
            "devRoot": str(self.root / "host"),
            "procRoot": str(self.state / "proc"),
            "sysfsRoot": str(self.root / "sys"),
            # Whoever may not mount has the machine's own.
            "mpsSharedMemory": "private" if os.geteuid() == 0 else "host",
        }
        return {**places, **changes}

    def _write_gpu(self, number, gpu, mig_mode):
        place = self.state / "gpus" / str(number)
        (place / "instances").mkdir(parents=True)
        model = gpu.model
        facts = {
            "uuid": gpu.uuid,
            "minor": gpu.minor,
            "name": model.product_name,
            "brand": BRANDS[model.brand],
            "architecture": ARCHITECTURES[model.architecture],
            "capability": model.compute_capability,
            "memory": Quantity.parse(model.memory).value(),
            "bus": f"0000{gpu.pci_bus_id}",
            "addressing": ADDRESSING.get(model.addressing_mode, ""),
        }
        (place / "facts").write_text("".join(f"{key} {value}\n" for key, value in facts.items()))
        if model.mig:
            (place / "profiles").write_text("".join(map(_profile_line, model.mig)))
            (place / "mig_mode").write_text(str(int(mig_mode)))

    def _write_sysfs(self, gpu):
        devices = self.root / "sys/devices" / gpu.pcie_root
        place = devices / f"{gpu.pcie_root.removeprefix('pci')}:01.0" / gpu.pci_bus_id
        place.mkdir(parents=True)
        for name, text in {"vendor": "0x10de", "device": "0x2330", "class": "0x030200"}.items():
            (place / name).write_text(f"{text}\n")
        (place / "numa_node").write_text(f"{gpu.numa_node}\n")
        self.bind(gpu.pci_bus_id, place, "nvidia")
        (self.root / "sys/module/nvidia").mkdir(parents=True, exist_ok=True)

    def bind(self, address, place, driver):
        bus = self.root / "sys/bus/pci"
        (bus / "devices").mkdir(parents=True, exist_ok=True)
        (bus / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        (bus / "devices" / address).symlink_to(place)
        (place / "driver").symlink_to(bus / "drivers" / driver)

    def _write_devices(self):
        (self.root / "host/dev").mkdir(parents=True)
        for name in (*NODES, *(f"nvidia{gpu.minor}" for gpu in self.gpus)):
            (self.root / "host/dev" / name).symlink_to("/dev/null")
        (self.state / "proc").mkdir()
        (self.state / "proc/devices").write_text("Character devices:\n195 nvidia\n240 nvidia-caps\n\nBlock devices:\n")

    def _write_driver(self, library):
        libraries, programs = self.driver_root / "usr/lib/x86_64-linux-gnu", self.driver_root / "usr/bin"
        libraries.mkdir(parents=True)
        programs.mkdir(parents=True)
        # The same file as any other machine's: a process loads it once.
        os.link(library, libraries / f"libnvidia-ml.so.{DRIVER_VERSION}")
        (libraries / f"libcuda.so.{DRIVER_VERSION}").write_text("")
        for name in ("libnvidia-ml", "libcuda"):
            (libraries / f"{name}.so.1").symlink_to(f"{name}.so.{DRIVER_VERSION}")
        for name, text in {"nvidia-smi": NVIDIA_SMI, "nvidia-cuda-mps-control": MPS_CONTROL}.items():
            self.write_program(name, text.format(state=self.state))

    def write_program(self, name, text="#!/bin/sh\n"):
        path = self.driver_root / "usr/bin" / name
        path.write_text(text)
        path.chmod(0o755)

    # What became of it.

    def calls(self):
        """Since they were last read."""
        lines = (self.state / "calls").read_text().splitlines()
        os.truncate(self.state / "calls", 0)
        return lines

    def instances(self, number=0):
        """Profile and place of each GPU instance."""
        files = sorted((self.state / "gpus" / str(number) / "instances").iterdir())
        return [tuple(map(int, each.read_text().split()[:2])) for each in files]

    def put_instance(self, number, gi, profile, start, size, uuid="MIG-made-by-hand"):
        place = self.state / "gpus" / str(number)
        (place / "instances" / str(gi)).write_text(f"{profile} {start} {size} 0 {uuid}")
        capabilities = self.state / f"proc/driver/nvidia/capabilities/gpu{self.gpus[number].minor}/mig/gi{gi}"
        (capabilities / "ci0").mkdir(parents=True)
        (capabilities / "access").write_text("DeviceFileMinor: 30\nDeviceFileMode: 292\n")
        (capabilities / "ci0/access").write_text("DeviceFileMinor: 31\nDeviceFileMode: 292\n")

    def read(self, name, number=0):
        path = self.state / "gpus" / str(number) / name
        return path.read_text() if path.exists() else None

    def write(self, name, text="", number=0):
        (self.state / "gpus" / str(number) / name).write_text(str(text))

    def remove(self, name, number=0):
        (self.state / "gpus" / str(number) / name).unlink()

    def forget(self):
        """What is lost when the machine is started anew."""
        for number in range(len(self.gpus)):
            place = self.state / "gpus" / str(number)
            for each in (*(place / "instances").iterdir(), place / "compute_mode"):
                each.unlink(missing_ok=True)
            (place / "mig_mode").write_text("0")
        self.calls()

    def fail(self, function, how, number=None):
        """A function of NVML returns this error, for one GPU or for all; a program writes the text and fails."""
        self._order("fail", function, how, number)

    def hang(self, function, seconds=60, number=None):
        self._order("hang", function, seconds, number)

    def _order(self, kind, function, how, number):
        beside = self.state / "order"
        beside.write_text(str(how) if number is None else f"{how} {number}")
        beside.rename(self.state / kind / function)

    def tell(self, function, number):
        """A function of NVML that counts something tells this number."""
        self._order("told", function, number, None)

    def mend(self):
        for name in ("fail", "hang", "told"):
            for each in (self.state / name).iterdir():
                each.unlink()

    def called(self):
        """Functions of NVML that were called since this was last asked."""
        found = sorted(each.name for each in (self.state / "called").iterdir())
        for name in found:
            (self.state / "called" / name).unlink()
        return found

    def reload_driver(self, error=1):
        """Loads the kernel module again, which ends all sessions with NVML."""
        (self.root / "sys/module/nvidia").rmdir()
        (self.root / "sys/module/nvidia").mkdir()
        self.end_sessions(error)

    def end_sessions(self, error=1):
        """Ends all sessions with NVML: their calls return this error."""
        (self.state / "session_error").write_text(str(error))
        beside = self.state / "new-session"
        beside.write_text(str(time.monotonic_ns() % 2**30))
        beside.rename(self.state / "session")

    def event(self, number, data, kind=8, gi=-1):
        """An XID, unless it is of another kind."""
        beside = self.state / "event"
        beside.write_text(f"{number} {kind} {data} {gi}")
        beside.rename(self.state / "events" / f"{data}-{gi}")

    def time_slice(self, uuid):
        path = self.state / "slices" / uuid
        return int(path.read_text()) if path.exists() else 0

    def daemons(self):
        """Process ids of MPS daemons of this machine."""
        mark = f"CUDA_MPS_PIPE_DIRECTORY={self.root_of_daemons}".encode()
        return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal() and mark in _environ(each)]

    def kill_daemons(self, pids=None):
        """Those, or all of this machine; returns when they are dead."""
        killed = set(self.daemons() if pids is None else pids)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        while killed & set(self.daemons()):
            time.sleep(0.01)


def _profile_line(profile):
    index, count = PROFILES[profile.id]
    slices = profile.profile[0]
    memory = Quantity.parse(profile.memory).value() // 2**20
    engines = (profile.copy_engines, profile.decoders, profile.encoders, profile.jpeg_engines, profile.ofa_engines)
    numbers = (index, profile.id, slices, count, profile.multiprocessors, *engines, memory)
    places = ",".join(f"{start}:{profile.slices()}" for start in profile.starts())
    return f"{' '.join(map(str, numbers))} {profile.profile} {places}\n"


def _environ(process):
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""
