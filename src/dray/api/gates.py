"""Feature gates: which features of Kubernetes 1.37 are on, as a value that is handed in."""

from __future__ import annotations

from dataclasses import dataclass

_ON = """
    DynamicResourceAllocation DRAAdminAccess DRAPrioritizedList DRAResourceClaimDeviceStatus DRAExtendedResource
    DRADeviceTaints DRADeviceTaintRules DRAConsumableCapacity DRAFractionalCapacityRange DRAPartitionableDevices
    DRADeviceBindingConditions DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
    ResourceHealthStatus
""".split()
_OFF = """
    DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus DRADerivedAttributes
    DRADeviceCompatibilityGroups DRAOptionalNodeOperations DRAPartitionableDevicesType DRAWorkloadResourceClaims
    GenericWorkload TopologyAwareWorkloadScheduling CompositePodGroup PodGroupPreemptionPolicy WorkloadWithJob
""".split()
# Generally available and locked: asking to switch one off is an error.
_LOCKED = frozenset(
    """
    DynamicResourceAllocation DRAAdminAccess DRAPrioritizedList DRAResourceClaimDeviceStatus DRAExtendedResource
    """.split()
)

KNOWN: tuple[str, ...] = tuple(sorted(_ON + _OFF))


class GateError(ValueError):
    """The feature gate does not exist or cannot be switched."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The set of enabled features; `gates["DRADeviceTaints"]` returns whether one is on."""

    enabled: frozenset[str]

    def __getitem__(self, name: str) -> bool:
        return name in self.enabled

    def switched(self, **gates: bool) -> FeatureGates:
        """Returns a copy with some gates changed. Raises GateError if a locked gate is switched off."""
        for name, on in gates.items():
            if name in _LOCKED and not on:
                raise GateError(f"feature gate {name} is locked on in Kubernetes 1.37")
        return self.unlocked(**gates)

    def unlocked(self, **gates: bool) -> FeatureGates:
        """The same for a client, whose server may be older than 1.37: there is no feature that it cannot do without."""
        enabled = set(self.enabled)
        for name, on in gates.items():
            if name not in ("AllAlpha", "AllBeta") and name not in KNOWN:
                raise GateError(f"unknown feature gate {name!r}: known are {', '.join(KNOWN)}")
            if name == "AllAlpha" or name == "AllBeta":
                enabled.update(_OFF) if on else enabled.difference_update(_OFF)
            else:
                (enabled.add if on else enabled.discard)(name)
        return FeatureGates(frozenset(enabled))

    @classmethod
    def parse(cls, text: str, *, locked: bool = True) -> FeatureGates:
        """Reads `A=true,B=false`, as the components' --feature-gates, on top of the defaults."""
        switches = {}
        for part in filter(None, (item.strip() for item in text.split(","))):
            name, separator, value = part.partition("=")
            if not separator or value.lower() not in ("true", "false"):
                raise GateError(f"feature gate {part!r}: write NAME=true or NAME=false")
            switches[name.strip()] = value.lower() == "true"
        return DEFAULT_GATES.switched(**switches) if locked else DEFAULT_GATES.unlocked(**switches)


DEFAULT_GATES = FeatureGates(frozenset(_ON))
ALL_GATES = FeatureGates(frozenset(_ON + _OFF))
