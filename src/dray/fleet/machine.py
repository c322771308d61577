"""One machine of a fleet: its node, as a kubelet would register it, and the facts about its devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from dray.api.objects import Object
from dray.drivers.cpu.topology import Cpu, Topology
from dray.drivers.devices.gpu import Gpu, GpuModel
from dray.drivers.devices.names import TPU
from dray.drivers.devices.nic import Nic
from dray.drivers.devices.tpu import TpuChip, TpuHost, chip_names
from dray.fleet.fleet_spec import Machines
from dray.fleet.machine_type import MachineType, NumaNode
from dray.node.cpusets.lists import parse_cpuset

MACHINE_TYPE: Final = "simulated.dray.dev/machine-type"
"""Label of all nodes of a fleet."""
PRICE_CLASS: Final = "simulated.dray.dev/price-class"
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")
_VERSION: Final = "v1.37.0"
# Simulated kubelets do without drivers that have nothing to do on a node.
_FEATURES: Final = ("DRAOptionalNodeOperations",)
# What pods may write on a machine that says nothing else.
_DISK: Final = "100Gi"


@dataclass(frozen=True)
class Machine:
    """A simulated machine; `options` says how its devices are published."""

    name: str
    type: MachineType
    options: Machines

    def publishes(self, driver: str) -> bool:
        """Whether that driver is among those that run on it."""
        return not self.options.drivers or driver in self.options.drivers

    @property
    def is_slice_host(self) -> bool:
        """Whether its TPUs are published with those of other machines."""
        tpus = self.tpus
        return tpus is not None and not tpus.is_single and self.options.tpus == "slice" and self.publishes(TPU)

    def uuid(self, what: str) -> str:
        """Returns a uuid that is the same whenever the machine is created again."""
        return str(uuid5(NAMESPACE_DNS, f"{what}.{self.name}.simulated.dray.dev"))

    @cached_property
    def gpus(self) -> list[Gpu]:
        found: list[Gpu] = []
        for installed in self.type.gpus:
            assert isinstance(installed.model, GpuModel)
            for slot in installed.slots:
                gpu = Gpu(
                    minor=len(found),
                    uuid=f"GPU-{self.uuid(f'gpu-{len(found)}')}",
                    model=installed.model,
                    driver_version=installed.driver_version,
                    cuda_version=installed.cuda_version,
                    pci_bus_id=slot.address,
                    pcie_root=slot.pcie_root,
                    numa_node=slot.numa_node,
                )
                found.append(gpu)
        return found

    @cached_property
    def nics(self) -> list[Nic]:
        return [
            Nic(
                pci_bus_id=port.address,
                pcie_root=port.pcie_root,
                numa_node=port.numa_node,
                interface=port.interface,
                vendor=nic.vendor,
                device=nic.device,
                mac=self._mac(port.address) if port.interface else "",
                mtu=nic.mtu,
                rdma=nic.rdma,
                rdma_device=port.rdma_device,
                virtual_function=nic.virtual_function,
                ebpf=nic.ebpf,
                further={**nic.cloud, **({"gce.dra.net/networkName": port.network} if port.network else {})},
            )
            for nic in self.type.nics
            for port in nic.ports
        ]

    @cached_property
    def tpus(self) -> TpuHost | None:
        tpus = self.type.tpus
        if tpus is None:
            return None
        return TpuHost(
            node=self.name,
            accelerator=tpus.accelerator,
            topology=self.options.topology or tpus.topology,
            chips=tuple(TpuChip(name=name) for name in chip_names(tpus.accelerator, tpus.chips)),
        )

    @cached_property
    def topology(self) -> Topology:
        threads = self.type.threads_per_core if self.type.cpus % self.type.threads_per_core == 0 else 1
        nodes = self.type.numa_nodes or (NumaNode(cpus=f"0-{self.type.cpus - 1}"),)
        cpus: dict[int, Cpu] = {}
        for number, node in enumerate(nodes):
            members = sorted(parse_cpuset(node.cpus))
            cores = len(members) // threads
            socket = number if node.socket is None else node.socket
            for at, cpu in enumerate(members):
                core = members[at % cores]
                cpus[cpu] = Cpu(cpu, core_id=core, socket=socket, numa_node=number, l3=number)
        slots = [slot for gpu in self.type.gpus for slot in gpu.slots]
        slots += [port for nic in self.type.nics for port in nic.ports]
        roots = {
            slot.pcie_root: parse_cpuset(nodes[slot.numa_node].cpus)
            for slot in slots
            if slot.pcie_root and slot.numa_node is not None
        }
        return Topology(dict(sorted(cpus.items())), smt_enabled=threads > 1, pcie_roots=roots)

    @property
    def address(self) -> str:
        digest = sha256(self.name.encode()).digest()
        return f"10.{128 + digest[0] % 64}.{digest[1]}.{1 + digest[2] % 254}"

    def _mac(self, of: str) -> str:
        digest = sha256(f"{self.name}/{of}".encode()).digest()
        # A locally administered address.
        return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))

    def traits(self) -> dict[str, str]:
        """Returns labels that describe the hardware, for a node that another component registers."""
        own = (MACHINE_TYPE, "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch")
        return {name: value for name, value in self.labels().items() if name not in own}

    def resources(self) -> dict[str, str]:
        capacity = {"cpu": str(self.type.cpus), "memory": self.type.memory, "pods": str(self.type.pods)}
        return {**capacity, "ephemeral-storage": _DISK, **self.type.allocatable}

    def node(self) -> Object:
        metadata = {"name": self.name, "labels": self.labels()}
        spec: Object = {"taints": [dict(taint) for taint in self.options.taints]} if self.options.taints else {}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": self._status()}

    def labels(self) -> dict[str, str]:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": self.type.architecture,
            "node.kubernetes.io/instance-type": self.type.name,
            MACHINE_TYPE: self.type.name,
            PRICE_CLASS: self.type.price_class,
        }
        if self.type.gpus:
            labels["nvidia.com/gpu.present"] = "true"
        if self.type.tpus is not None:
            labels["cloud.google.com/gke-tpu-accelerator"] = self.type.tpus.accelerator
            labels["cloud.google.com/gke-tpu-topology"] = self.options.topology or self.type.tpus.topology
            labels["cloud.google.com/gke-accelerator-count"] = str(self.type.tpus.chips)
        return {**labels, **self.type.labels, **self.options.labels}

    def _status(self) -> Object:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a simulated node"}
        return {
            "capacity": self.resources(),
            "allocatable": self.resources(),
            "conditions": [*({"type": pressure, "status": "False"} for pressure in _PRESSURES), ready],
            "addresses": [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name}],
            "nodeInfo": self._info(),
            "declaredFeatures": list(_FEATURES),
        }

    def _info(self) -> Object:
        return {
            "machineID": self.uuid("machine").replace("-", ""),
            "systemUUID": self.uuid("system"),
            "bootID": self.uuid("boot"),
            "kernelVersion": "simulated",
            "osImage": "simulated",
            "containerRuntimeVersion": "simulated://1",
            "kubeletVersion": _VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": self.type.architecture,
        }
