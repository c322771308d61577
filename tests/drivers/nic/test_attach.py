"""Interfaces in the network of a pod and back on the host, with real interfaces in real namespaces."""

import ctypes
import os
import random
import signal
import struct
import subprocess
import time

import msgspec
import pytest

from dray.drivers.nic import attach as attach_module
from dray.drivers.nic import ebpf, matching
from dray.drivers.nic.attach import attach, namespace_of
from dray.drivers.nic.attachment import Attachment, AttachmentError, Attachments, boot_id
from dray.drivers.nic.config import NetworkConfig
from dray.drivers.nic.discovery import discover, read_interfaces
from dray.drivers.nic.links import netlink, read_links
from dray.drivers.nic.options import NicOptions
from dray.drivers.nic.recovery import recover, release
from dray.node.network_namespaces import number
from tests.damage import DAMAGES
from tests.drivers.nic.networks import interfaces, ip, make_interface, seen

CLAIM = "0000-claim"


class Desk:
    """What the driver and the hook do with one interface."""

    def __init__(self, directory):
        self.attachments = Attachments(directory)

    def plan(self, name, **parameters):
        (found,) = [each for each in discover(read_interfaces(), NicOptions(exclude_types="")) if each.label == name]
        config = msgspec.convert(parameters, NetworkConfig)
        config.validate()
        attachment = Attachment(
            device=found.nic.name,
            pool="node",
            request="nic",
            claim_namespace="default",
            claim_name="claim",
            claim_uid=CLAIM,
            owner=str(self.attachments.directory / "owner"),
            boot_id=boot_id(),
            host_network=number(),
            nic=found.nic,
            config=config,
        )
        self.attachments.write(attachment)

    def attach(self, name, pod):
        return attach(self.attachments, name, CLAIM, str(pod.path))

    def release(self, name):
        release(self.attachments, name, CLAIM)


@pytest.fixture
def desk(host_network, tmp_path):
    return Desk(tmp_path / "state")


def test_an_interface_is_in_the_pod_as_the_claim_says_and_unharmed_afterwards(desk, pod_network):
    before = make_interface("nic0")
    pod = pod_network()
    desk.plan(
        "nic0",
        interface={
            "name": "net1",
            "addresses": ["10.0.0.18/16", "fd00::18/64"],
            "mtu": 1300,
            "hardwareAddr": "02:00:00:00:00:07",
            "gsoMaxSize": 32768,
            "arpIgnore": 1,
            "arpAnnounce": 2,
            "forwarding": True,
        },
        routes=[
            {"destination": "10.0.0.0/8", "gateway": "10.0.0.1"},
            {"destination": "172.16.0.0/12", "gateway": "10.0.0.1", "table": 100, "source": "10.0.0.18"},
        ],
        rules=[{"priority": 300, "source": "10.0.0.18/32", "table": 100}],
        neighbors=[{"destination": "10.0.0.1", "hardwareAddr": "02:00:00:00:00:01"}],
        ethtool={"features": {"tcp-segmentation-offload": False}},
    )
    in_pod = desk.attach("nic0", pod).in_pod
    assert (in_pod.interface, in_pod.addresses) == ("net1", ("10.0.0.18/16", "fd00::18/64"))
    assert in_pod.mac == "02:00:00:00:00:07"
    assert interfaces() == {"nic0p"}
    inside = pod.seen("net1")
    assert (inside["mtu"], inside["address"], inside["up"]) == (1300, "02:00:00:00:00:07", True)
    assert inside["gso_max_size"] == 32768
    assert inside["addresses"][0].startswith("10.0.0.18/16")
    routes = "\n".join(inside["routes"])
    assert "10.0.0.0/8 via 10.0.0.1 proto static" in routes
    assert "172.16.0.0/12 via 10.0.0.1 table 100 proto static src 10.0.0.18" in routes
    assert "300:\tfrom 10.0.0.18 lookup 100" in pod.run("rule")
    assert any("10.0.0.1 lladdr 02:00:00:00:00:01" in each for each in inside["neighbors"])
    desk.release("nic0")
    assert seen("nic0") == before
    assert pod.interfaces() == set()
    assert os.listdir(desk.attachments.directory / "netns") == []
    assert desk.attachments.all() == []


def test_without_configuration_it_keeps_name_addresses_and_routes(desk, pod_network):
    before = make_interface("nic0")
    pod = pod_network()
    desk.plan("nic0")
    assert desk.attach("nic0", pod).in_pod.addresses == ("10.1.3.3/24", "10.1.2.3/24")
    inside = pod.seen("nic0")
    assert inside["mtu"] == 1480
    assert any("10.71.0.0/16 via 10.1.2.1" in each for each in inside["routes"])
    assert any("10.81.0.0/16 via 10.1.2.1 table 78" in each for each in inside["routes"])
    assert inside["neighbors"] == before["neighbors"]
    desk.release("nic0")
    assert seen("nic0") == before


def test_an_interface_that_was_down_and_bare_is_so_again(desk, pod_network):
    ip("link", "add", "nic0", "type", "veth", "peer", "name", "peer0")
    before = seen("nic0")
    desk.plan("nic0", interface={"name": "net1", "addresses": ["10.0.0.1/24"]})
    desk.attach("nic0", pod_network())
    desk.release("nic0")
    assert seen("nic0") == before
    assert not before["up"]


@pytest.mark.parametrize("kind", ["dummy", "ifb", "tap"])
def test_interfaces_of_other_kinds(desk, pod_network, kind):
    try:
        ip(*(["tuntap", "add", "nic0", "mode", "tap"] if kind == "tap" else ["link", "add", "nic0", "type", kind]))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this kernel has no interfaces of type {kind}: {error.stderr.strip()}")
    ip("link", "set", "nic0", "up")
    ip("addr", "add", "10.1.2.3/24", "dev", "nic0")
    before = seen("nic0")
    desk.plan("nic0", interface={"name": "net1"})
    pod = pod_network()
    desk.attach("nic0", pod)
    assert pod.interfaces() == {"net1"}
    pod.end()
    desk.release("nic0")
    assert seen("nic0") == before


def test_the_hook_runs_again_for_each_container(desk, pod_network):
    make_interface("nic0")
    pod = pod_network()
    desk.plan("nic0", interface={"name": "net1"})
    first = desk.attach("nic0", pod)
    assert desk.attach("nic0", pod) == first
    assert pod.interfaces() == {"net1"}


def test_a_sandbox_that_is_made_anew_gets_it_too(desk, pod_network):
    before = make_interface("nic0")
    first, second = pod_network(), pod_network()
    desk.plan("nic0", interface={"name": "net1"})
    desk.attach("nic0", first)
    desk.attach("nic0", second)
    assert (first.interfaces(), second.interfaces()) == (set(), {"net1"})
    desk.release("nic0")
    assert seen("nic0") == before


def test_it_is_back_although_the_network_of_the_pod_has_vanished(desk, pod_network):
    before = make_interface("nic0")
    pod = pod_network()
    desk.plan("nic0", interface={"name": "net1", "addresses": ["10.0.0.1/24"]})
    desk.attach("nic0", pod)
    # Its last process has ended and the runtime has let go of it.
    pod.end()
    desk.release("nic0")
    assert seen("nic0") == before


def test_it_is_back_although_the_pod_has_changed_it(desk, pod_network):
    before = make_interface("nic0")
    pod = pod_network()
    desk.plan("nic0", interface={"name": "net1"})
    desk.attach("nic0", pod)
    pod.run("link", "set", "net1", "down", "name", "mine", "mtu", "900", "alias", "mine")
    desk.release("nic0")
    assert seen("nic0") == before


def test_it_is_back_although_its_name_is_taken_for_a_while(desk, pod_network, caplog):
    before = make_interface("nic0")
    pod = pod_network()
    desk.plan("nic0", interface={"name": "net1"})
    desk.attach("nic0", pod)
    make_interface("nic0", number=2, peer="other")
    desk.release("nic0")
    assert "is back as dray" in caplog.text
    (spare,) = [each for each in interfaces() if each.startswith("dray")]
    assert seen(spare)["address"] == before["address"]
    assert any(each.startswith("10.1.2.3/24") for each in seen(spare)["addresses"])


@pytest.mark.parametrize("moment", ["refused", "killed"])
def test_an_interface_of_the_pod_with_that_name_stays_in_the_pod(desk, pod_network, moment, monkeypatch):
    """Of the same kind, as a container runtime gives it to the pod."""
    before = make_interface("nic0")
    pod = pod_network()
    pod.run("link", "add", "eth0", "type", "veth", "peer", "name", "peer0")
    was = pod.seen("eth0")
    desk.plan("nic0", interface={"name": "eth0"})
    if moment == "killed":
        # Between what is written down and the move, it looks like a pod that has changed the hardware address.
        monkeypatch.setattr(attach_module, "_move", lambda *arguments: os._exit(9))
        child = os.fork()
        if child == 0:
            desk.attach("nic0", pod)
        os.waitpid(child, 0)
        assert desk.attachments.read("nic0").phase == "moving"
    else:
        with pytest.raises(AttachmentError, match="the pod has an interface eth0 already"):
            desk.attach("nic0", pod)
    desk.release("nic0")
    assert pod.interfaces() == {"eth0", "peer0"}
    assert pod.seen("eth0") == was
    assert interfaces() == {"nic0", "nic0p"}
    assert seen("nic0") == before


def test_a_name_that_the_pod_has_already_is_refused_and_nothing_changes(desk, pod_network):
    before = make_interface("nic0")
    pod = pod_network()
    pod.run("link", "add", "net1", "type", "veth", "peer", "name", "x")
    desk.plan("nic0", interface={"name": "net1"})
    with pytest.raises(AttachmentError, match="the pod has an interface net1 already"):
        desk.attach("nic0", pod)
    assert seen("nic0") == before
    assert "the pod has an interface net1 already" in desk.attachments.read("nic0").problem


def test_interfaces_join_a_vrf_where_the_kernel_has_them(desk, pod_network):
    before = {name: make_interface(name, number=number) for number, name in enumerate(("nic0", "nic1"))}
    pod = pod_network()
    for at, name in enumerate(before):
        wanted = {"name": f"net{at}", "addresses": [f"10.{at}.0.2/24"], "vrf": {"name": "blue", "table": 42}}
        desk.plan(name, interface=wanted, routes=[{"destination": f"10.9{at}.0.0/16", "gateway": f"10.{at}.0.1"}])
    try:
        ip("link", "add", "red", "type", "vrf", "table", "43")
        ip("link", "del", "red")
    except subprocess.CalledProcessError:
        with pytest.raises(AttachmentError, match=r"interface\.vrf blue: "):
            desk.attach("nic0", pod)
    else:
        desk.attach("nic0", pod)
        assert "10.90.0.0/16 via 10.0.0.1 dev net0" in pod.run("route", "show", "vrf", "blue")
        desk.attach("nic1", pod)
        assert {"net0", "net1", "blue"} == pod.interfaces()
    for name, was in before.items():
        desk.release(name)
        assert seen(name) == was


def test_what_fails_without_a_reason_that_is_known_is_undone_too(desk, pod_network, monkeypatch):
    before = make_interface("nic0")
    pod = pod_network()
    desk.plan("nic0", interface={"name": "net1"})

    def fail(*_):
        raise struct.error("a number too large")

    monkeypatch.setattr(attach_module, "_route", fail)
    with pytest.raises(AttachmentError, match="a number too large"):
        desk.attach("nic0", pod)
    assert pod.interfaces() == set()
    assert seen("nic0") == before


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"routes": [{"destination": "10.9.0.0/16", "gateway": "192.168.200.1"}]}, "route to 10.9.0.0/16: Network is"),
        ({"interface": {"name": "net1", "mtu": 100000}}, "interface.mtu 100000: "),
    ],
)
def test_what_fails_in_the_pod_is_undone(desk, pod_network, parameters, problem):
    before = make_interface("nic0")
    pod = pod_network()
    desk.plan("nic0", **parameters)
    with pytest.raises(AttachmentError, match=f"device nic0 .*{problem}"):
        desk.attach("nic0", pod)
    assert seen("nic0") == before
    assert pod.interfaces() == set()


def test_an_interface_that_the_machine_has_come_to_need_stays(desk, pod_network):
    make_interface("nic0")
    desk.plan("nic0")
    ip("route", "add", "default", "via", "10.1.2.1", "dev", "nic0")
    before = seen("nic0")
    with pytest.raises(AttachmentError, match="the machine uses the interface by now"):
        desk.attach("nic0", pod_network())
    assert seen("nic0") == before


def test_a_pod_with_the_network_of_the_host_is_refused(desk):
    before = make_interface("nic0")
    desk.plan("nic0")
    with pytest.raises(AttachmentError, match="hostNetwork"):
        attach(desk.attachments, "nic0", CLAIM, "/proc/thread-self/ns/net")
    assert seen("nic0") == before


def test_a_claim_that_is_not_prepared_moves_nothing(desk, pod_network):
    make_interface("nic0")
    desk.plan("nic0")
    with pytest.raises(AttachmentError, match="not prepared for claim another"):
        attach(desk.attachments, "nic0", "another", str(pod_network().path))
    assert "nic0" in interfaces()


def test_a_kernel_that_lost_its_name_does_not_matter(desk, host_network):
    """As a physical interface is named when the network that it was in ends while its name is taken."""
    make_interface("nic0")
    desk.plan("nic0")
    with netlink() as connection:
        snapshot_link = next(each for each in read_links(connection) if each.name == "nic0")
        ip("link", "set", "nic0", "down", "name", "dev7")
        from dray.drivers.nic.snapshot import Snapshot

        found = matching.came_back(read_links(connection), Snapshot(link=snapshot_link), None)
    assert found.name == "dev7"


def test_killed_at_any_moment_of_a_move_it_can_be_brought_back(desk, pod_network):
    before = make_interface("nic0")
    generator = random.Random(7)
    pod = pod_network()
    for _ in range(int(os.environ.get("DRAY_DRIVER_CYCLES", "12"))):
        desk.plan("nic0", interface={"name": "net1", "addresses": ["10.0.0.1/24"], "mtu": 1300})
        child = os.fork()
        if child == 0:
            try:
                desk.attach("nic0", pod)
                desk.release("nic0")
            finally:
                os._exit(0)
        time.sleep(generator.uniform(0, 0.15))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        desk.release("nic0")
        assert seen("nic0") == before
        assert pod.interfaces() == set()
        assert desk.attachments.all() == []


def program(name):
    """A program for traffic control that lets everything pass: its descriptor."""
    code = struct.pack("<BBhi", 0xB7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0)
    kept, licence = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
    places = ctypes.addressof(kept), ctypes.addressof(licence)
    attributes = struct.pack("=IIQQIIQII16s", 3, 2, *places, 0, 0, 0, 0, 0, name)
    try:
        return ebpf._descriptor(5, attributes)
    except OSError as error:
        pytest.skip(f"this kernel takes no eBPF programs: {error}")


def test_ebpf_programs_are_published_and_taken_off(desk, pod_network):
    make_interface("nic0")
    descriptor = program(b"by_tcx")
    with netlink() as connection:
        index = connection.link_lookup(ifname="nic0")[0]
        connection.tc("add", "clsact", index=index)
        options = {"fd": descriptor, "name": "by_tc", "parent": 0xFFFFFFF2, "direct_action": True, "protocol": 3}
        connection.tc("add-filter", "bpf", index=index, classid=1, **options)
        ebpf._call(8, struct.pack("=IIIIIIQ", index, descriptor, 46, 0, 0, 0, 0))
    os.close(descriptor)
    desk.plan("nic0", interface={"name": "net1", "disableEbpfPrograms": True})
    nic = desk.attachments.read("nic0").nic
    assert (nic.ebpf, nic.tc_filters, nic.tcx_programs) == (True, ("by_tc",), ("by_tcx",))
    desk.attach("nic0", pod_network())
    desk.release("nic0")
    (found,) = [each for each in discover(read_interfaces(), NicOptions()) if each.label == "nic0"]
    assert not found.nic.ebpf


def test_what_another_driver_left_is_brought_back_once_nobody_cares_for_it(desk, pod_network, tmp_path):
    before = make_interface("nic0")
    pod = pod_network()
    desk.plan("nic0", interface={"name": "net1"})
    desk.attach("nic0", pod)
    record = tmp_path / "state/owner/claims" / f"{CLAIM}.json"
    record.parent.mkdir(parents=True)
    record.touch()
    # Its owner does not run, and the pod's network is in use.
    recover(desk.attachments, tmp_path / "another")
    assert pod.interfaces() == {"net1"}
    pod.end()
    recover(desk.attachments, tmp_path / "another")
    assert seen("nic0") == before
    assert desk.attachments.all() == []


@pytest.mark.parametrize("damage", ["truncated", "nested", "directory", "link to nothing"])
def test_a_record_that_cannot_be_read_says_what_to_do(desk, pod_network, caplog, damage):
    make_interface("nic0")
    desk.plan("nic0")
    DAMAGES[damage](desk.attachments.directory / "nic0.json")
    with pytest.raises(AttachmentError, match="see that the interface of nic0 is on the host, then remove the file"):
        desk.attach("nic0", pod_network())
    assert desk.attachments.all() == []
    assert "then remove the file" in caplog.text


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"pid": 0, "bundle": "/nowhere"}, "neither a process nor a bundle"),
        ({}, "neither a process nor a bundle"),
    ],
)
def test_a_runtime_that_names_no_network_is_told_so(state, problem):
    with pytest.raises(AttachmentError, match=problem):
        namespace_of(state)
    assert namespace_of({"pid": 7}) == "/proc/7/ns/net"
