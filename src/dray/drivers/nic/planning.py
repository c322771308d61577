"""Planning: what a claim wants of a device, checked against what the machine has, before anything is changed."""

from __future__ import annotations

from typing import Final

from dray.driver import AllocatedDevice, Claim
from dray.drivers.nic import ethtool, rdma
from dray.drivers.nic.attachment import Attachment, AttachmentError, InPod, boot_id
from dray.drivers.nic.config import NetworkConfig
from dray.drivers.nic.discovery import Found
from dray.drivers.nic.options import NicOptions
from dray.drivers.nic.sysfs import read_functions
from dray.drivers.nic.wanted import config_of

_MTU: Final = "mtu"


def planned(
    claim: Claim, device: AllocatedDevice, found: Found | None, options: NicOptions, *, owner: str, host_network: int
) -> Attachment:
    """Plans the attachment of a device. Raises AttachmentError if the claim cannot have it."""
    if found is None:
        raise AttachmentError("it is not on this machine any more")
    if found.obstacle:
        raise AttachmentError(f"{found.label} is not to be had: {found.obstacle}")
    config = config_of(device)
    moves_rdma = bool(found.nic.rdma_device) and rdma.is_exclusive()
    if found.nic.interface:
        _check_interface(found, config, options)
    elif not config.is_empty:
        raise AttachmentError("it has no interface, and the claim has a configuration for one")
    ready = not (found.nic.interface or moves_rdma)
    return Attachment(
        device=device.device,
        pool=device.pool,
        request=device.request,
        claim_namespace=claim.reference.namespace,
        claim_name=claim.reference.name,
        claim_uid=claim.uid,
        owner=owner,
        boot_id=boot_id(),
        host_network=host_network,
        nic=found.nic,
        config=config,
        phase="attached" if ready else "planned",
        moves_rdma=moves_rdma,
        in_pod=InPod() if ready else None,
    )


def _check_interface(found: Found, config: NetworkConfig, options: NicOptions) -> None:
    name = found.nic.interface
    if config.ethtool is not None:
        try:
            ethtool.features(name, config.ethtool.features)
        except ethtool.EthtoolFailed as error:
            raise AttachmentError(str(error)) from error
        unknown = set(config.ethtool.private_flags) - set(ethtool.private_flags(name))
        if unknown:
            raise AttachmentError(f"ethtool.privateFlags: {name} has no flag {min(unknown)}")
    mtu = config.interface.mtu
    if mtu is not None and found.nic.virtual_function:
        _check_virtual_function(found, mtu, options)


def _check_virtual_function(found: Found, mtu: int, options: NicOptions) -> None:
    functions = read_functions(options.sysfs)
    function = functions.get(found.nic.pci_bus_id)
    physical = functions.get(function.physical_function) if function is not None else None
    for parent in physical.interfaces if physical is not None else ():
        try:
            largest = int((options.sysfs / "class/net" / parent / _MTU).read_text())
        except (OSError, ValueError):
            continue
        if mtu > largest:
            raise AttachmentError(f"interface.mtu {mtu} is more than the {largest} of {parent}, whose function it is")
