"""Network namespaces and interfaces of tests: a host that is none of this machine, pods, and what is seen in them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from dray.drivers.nic.sysctls import path_of, read_sysctls
from dray.node import network_namespaces
from dray.node.runtimes.shim import system


def ip(*arguments):
    """Where the calling thread is."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=30).stdout


def make_interface(name, *, number=1, peer=""):
    """A veth whose other end is up, with all that must not be lost: its address is 10.<number>.2.3."""
    peer = peer or f"{name}p"
    ip("link", "add", name, "type", "veth", "peer", "name", peer)
    ip("link", "set", name, "mtu", "1480", "alias", f"port {name}", "up")
    ip("link", "set", peer, "up")
    path_of("ipv4", name, "rp_filter").write_text("2")
    path_of("ipv6", name, "accept_ra").write_text("0")
    network = f"10.{number}.2"
    ip("addr", "add", f"10.{number}.3.3/24", "dev", name, "noprefixroute", "label", f"{name}:1")
    ip("route", "add", f"10.{number}.3.0/24", "dev", name, "proto", "kernel", "metric", "100")
    ip("addr", "add", f"{network}.3/24", "broadcast", f"{network}.255", "dev", name)
    ip("route", "add", f"10.7{number}.0.0/16", "via", f"{network}.1", "dev", name, "metric", "7")
    ip("route", "add", f"10.8{number}.0.0/16", "via", f"{network}.1", "dev", name, "table", "78")
    ip("neigh", "add", f"{network}.99", "lladdr", "02:00:00:00:00:99", "dev", name, "nud", "permanent")
    return seen(name)


def seen(name):
    """Everything about an interface that must be as it was; None where there is none."""
    found = [each for each in json.loads(ip("-j", "-d", "link", "show")) if each["ifname"] == name]
    if not found:
        return None
    (link,) = found
    kept = ("ifname", "mtu", "address", "ifalias", "txqlen", "gso_max_size", "gro_max_size", "gso_ipv4_max_size")
    shown = {each: link.get(each) for each in kept} | {"up": "UP" in link["flags"]}
    addresses = json.loads(ip("-j", "addr", "show", "dev", name))
    given = [each for one in addresses for each in one.get("addr_info", ()) if each.get("scope") == "global"]
    kept = ("broadcast", "label", "noprefixroute", "dynamic")
    shown["addresses"] = sorted(
        f"{each['local']}/{each['prefixlen']} {[each.get(member) for member in kept]}" for each in given
    )
    routes = ip("-4", "route", "show", "table", "all", "dev", name).splitlines()
    shown["routes"] = sorted(" ".join(each.replace("linkdown", "").split()) for each in routes)
    # Set by whoever looks after the host; the kernel forgets them in a move.
    shown["sysctls"] = read_sysctls(name)
    shown["neighbors"] = ip("neigh", "show", "dev", name, "nud", "permanent").splitlines()
    return shown


def interfaces():
    return {each["ifname"] for each in json.loads(ip("-j", "link", "show"))} - {"lo"}


def unmount_below(directory):
    """What a test that failed has left would keep the directory from being removed."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if (place := line.split(" ", 5)[4]).startswith(f"{directory}/"):
            system.unmount(place)


class PodNetwork:
    """Held at a path, as a runtime holds the network of a sandbox."""

    def __init__(self, path: Path):
        self.path = path
        network_namespaces.make(path)

    def run(self, *arguments):
        return network_namespaces.run_in(self.path, lambda: ip(*arguments))

    def seen(self, name):
        return network_namespaces.run_in(self.path, lambda: seen(name))

    def interfaces(self):
        return network_namespaces.run_in(self.path, interfaces)

    def end(self):
        network_namespaces.let_go(self.path)
