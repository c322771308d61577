"""Trees of files that look like /sys and /dev of machines with TPUs."""

DEVICES = {"v3": "0x0027", "v4": "0x005e", "v5e": "0x0063", "v5p": "0x0062", "v6e": "0x006f"}


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def link(path, target):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def write_function(root, address, *, vendor="0x1ae0", device="0x006f", subsystem="0x0000", bus="pci0000:00", numa=0):
    """A PCI function, below the root of its bus; gives its directory."""
    directory = root / "sys" / "devices" / bus / address
    for name, value in (
        ("vendor", vendor),
        ("device", device),
        ("subsystem_device", subsystem),
        ("numa_node", numa),
    ):
        put(directory / name, value)
    link(root / "sys" / "bus" / "pci" / "devices" / address, directory)
    return directory


def write_host(root, generation="v6e", chips=4, first_group=0):
    """A machine with chips of this generation, two on each PCIe root; gives the settings of its driver."""
    (root / "dev" / "vfio").mkdir(parents=True)
    for number in range(chips):
        bus = number // 2
        directory = write_function(
            root,
            f"0000:{bus:02x}:{4 + number % 2:02x}.0",
            device=DEVICES[generation],
            subsystem="0x004f",
            bus=f"pci0000:{bus:02x}",
            numa=number * 2 // max(chips, 2),
        )
        if generation in ("v3", "v4"):
            put(root / "dev" / f"accel{number}", "")
            link(root / "sys" / "class" / "accel" / f"accel{number}" / "device", directory)
        else:
            group = first_group + number
            (root / "sys" / "kernel" / "iommu_groups" / str(group)).mkdir(parents=True)
            link(directory / "iommu_group", root / "sys" / "kernel" / "iommu_groups" / str(group))
            put(root / "dev" / "vfio" / str(group), "")
    if generation not in ("v3", "v4"):
        put(root / "dev" / "vfio" / "vfio", "")
    return {
        "sysfsRoot": str(root / "sys"),
        "devRoot": str(root / "dev"),
        "tpuEnvFile": str(root / "tpu-env"),
        "logDirectory": str(root / "logs"),
    }
