"""A tree of sysfs files for machines with network functions."""

from pathlib import Path


class SysfsTree:
    def __init__(self, root: Path):
        self.root = root
        (root / "class/net").mkdir(parents=True)
        (root / "bus/pci/devices").mkdir(parents=True)

    def function(self, address, *, bridge="0000:00:01.0", host="pci0000:8c", **members):
        """A PCI function below a bridge; members are files, `driver` the name of its driver."""
        place = self.root / "devices" / host / bridge / address
        place.mkdir(parents=True)
        files = {"class": "0x020000", "vendor": "0x15b3", "device": "0x1021", "numa_node": "1", **members}
        driver = files.pop("driver", "mlx5_core")
        for name, text in files.items():
            (place / name).write_text(f"{text}\n")
        if driver:
            made = self.root / "bus/pci/drivers" / driver
            made.mkdir(parents=True, exist_ok=True)
            (place / "driver").symlink_to(made)
        (self.root / "bus/pci/devices" / address).symlink_to(place)
        return place

    def interface(self, function, name, **files):
        place = function / "net" / name
        place.mkdir(parents=True)
        (place / "device").symlink_to(function)
        for key, text in files.items():
            (place / key).write_text(f"{text}\n")
        (self.root / "class/net" / name).symlink_to(place)

    def rdma(self, function, name, number):
        (function / "infiniband" / name).mkdir(parents=True)
        for kind, device in (("infiniband_verbs", f"uverbs{number}"), ("infiniband_mad", f"umad{number}")):
            place = self.root / "class" / kind / device
            place.mkdir(parents=True)
            (place / "ibdev").write_text(f"{name}\n")
