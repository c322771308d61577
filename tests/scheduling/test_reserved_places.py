"""A large group is not starved by small pods, and nobody is kept from anything for a group that can never start."""

from dray.testing import objects
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused, refused_groups

MINUTE = 60.0


def training(name, size, claims=(), **more):
    """A gang; each pod has a claim for each of `claims`, which are numbers of GPUs."""
    yield objects.pod_group(name, minCount=size, uid=f"uid-{name}", **more.pop("group", {}))
    for index in range(size):
        names = [f"{name}-{index}-{n}" for n in range(len(claims))]
        yield from (objects.claim(each, objects.request(count=n)) for each, n in zip(names, claims, strict=True))
        yield pod(f"{name}-{index}", schedulingGroup={"podGroupName": name}, claims=names, **more)


def small(number, **more):
    yield objects.claim(f"s{number}")
    yield pod(f"s{number}", claims=[f"s{number}"], **more)


class Stream:
    """One-GPU pods that come without end, each of which runs for some minutes, some of them longer than others."""

    def __init__(self, core, minutes=5, waiting=4, **spec):
        self.core, self.minutes, self.waiting, self.spec = core, minutes, waiting, spec
        self.number = 0
        self.began = {}
        self.started = {}
        self.messages = {}

    def until_reserved(self):
        found = {}
        for _ in range(60):
            if self.core.scheduler.reservations.active:
                return found
            found |= self.flow(0.5)
        raise AssertionError("no place is kept")

    def flow(self, minutes):
        """Gives what was bound of others."""
        others = {}
        for _ in range(int(minutes * 2)):
            for name, began in list(self.began.items()):
                if self.core.now - began >= (self.minutes + int(name[1:]) % 4) * MINUTE:
                    del self.began[name]
                    self.core.remove_with_claims(name)
            pending = [key for key in self.core.objects if key[0] == "Pod" and key[1] not in self.began]
            while len([key for key in pending if key[1].startswith("s")]) < self.waiting:
                self.number += 1
                self.core.put(*small(self.number, **self.spec))
                pending.append(("Pod", f"s{self.number}"))
            actions = self.core.later(MINUTE / 2)
            for action in actions:
                self.core.do(action)
            self.messages.update(refused(actions))
            self.messages.update(refused_groups(actions))
            for name in bound(actions):
                if name.startswith("s"):
                    self.began[name] = self.started[name] = self.core.now
                else:
                    others[name] = self.core.now
        return others


def fleet(**counts):
    for name, number in counts.items():
        yield objects.node(name, labels={"rack": name[0]})
        yield gpus.slice_of(name, number)


def test_a_stream_of_small_pods_starves_no_gang_of_whole_nodes():
    core = Core(*fleet(a=8, b=8, c=8), reservation_seconds=10 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("g", 2, claims=(8,)))
    arrived = core.now
    found = stream.flow(12)
    assert found.keys() == {"g-0", "g-1"}
    assert max(found.values()) - arrived < 12 * MINUTE
    assert not core.scheduler.reservations.active


def large(name, number=8, **more):
    """A pod by itself."""
    yield objects.claim(name, objects.request(count=number))
    yield pod(name, claims=[name], **more)


def test_a_stream_of_small_pods_starves_no_single_pod_of_a_whole_node():
    core = Core(*fleet(a=8, b=8, c=8), reservation_seconds=10 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*large("big"))
    arrived = core.now
    stream.until_reserved()
    found = stream.flow(12)
    assert found.keys() == {"big"}
    assert found["big"] - arrived < 12 * MINUTE
    assert "resources that become free are reserved for it, until" in stream.messages["big"]
    kept_off = [text for name, text in stream.messages.items() if name.startswith("s")]
    assert any(
        "free resources are reserved for pod default/big, which is waiting for room" in text for text in kept_off
    )
    assert not core.scheduler.reservations.active
    assert not core.scheduler.reservations.waiting
    assert not core.scheduler.nominations.reserved_places()


def test_single_pods_and_gangs_have_their_turn_by_when_they_came():
    core = Core(*fleet(a=8, b=8), reservation_seconds=30 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*large("first"))
    core.now += 1
    core.put(*training("g", 2, claims=(8,)), *large("last"))
    found = {}
    for _ in range(12):
        new = stream.flow(10)
        for name in new:
            # They run for a while.
            core.remove_with_claims(name)
        found |= new
    assert sorted(found, key=found.get) == ["first", "g-0", "g-1", "last"]


def test_a_pod_that_waits_for_one_device_keeps_nobody_from_anything():
    core = Core(*fleet(a=2), objects.node("b"), objects.resource_slice("b", gpus.gpu("rare", kind="net"), nodeName="b"))
    stream = Stream(core, minutes=2, waiting=1)
    core.put(objects.claim("r1", objects.request(deviceClassName="net")), pod("running", claims=["r1"]))
    core.settle()
    core.put(objects.claim("r2", objects.request(deviceClassName="net")), pod("waiting", claims=["r2"]))
    stream.flow(10)
    assert not core.scheduler.reservations.begun
    assert stream.number > 5


def test_a_single_pod_that_goes_gives_its_place_up():
    core = Core(*fleet(a=8), reservation_seconds=30 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*large("big"))
    stream.until_reserved()
    core.remove_with_claims("big")
    assert not core.scheduler.reservations.active
    assert not core.scheduler.reservations.waiting
    assert not core.scheduler.nominations.reserved_places()


def test_without_reservations_it_is_starved():
    core = Core(*fleet(a=8, b=8, c=8), reservation_seconds=0)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("g", 2, claims=(8,)))
    assert stream.flow(30) == {}


def test_those_that_are_kept_off_and_the_group_say_so():
    core = Core(*fleet(a=8), reservation_seconds=10 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("h", 2, claims=(4,)))
    stream.until_reserved()
    stream.flow(3)
    assert "Since 1970-01-01T00:1" in stream.messages["h"]
    assert "resources that become free are reserved for it, until 1970-01-01T00:2" in stream.messages["h"]
    kept = [text for name, text in stream.messages.items() if name.startswith("s") and "default/h" in text]
    assert any("0/1 nodes are available: free resources are reserved for PodGroup default/h" in each for each in kept)


def test_the_place_stays_where_it_is_until_devices_of_pods_that_ended_are_given_back():
    core = Core(*fleet(a=4, b=4, c=4), reservation_seconds=10 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("g", 2, claims=(4,)))
    stream.until_reserved()
    reservations = core.scheduler.reservations
    (group,) = core.state.groups.forest.all()
    nodes = reservations.near(group.key)
    assert len(nodes) == 2
    core.later(10)
    *others, last = [each for each in stream.began if core.get("Pod", each)["spec"]["nodeName"] in nodes]
    for name in others:
        core.remove("Pod", name)
        core.later(10)
        assert reservations.near(group.key) == nodes
    core.remove("Pod", last)
    core.later(10)
    assert {node for _, node in core.scheduler.nominations.places()} == nodes


def test_what_the_group_does_not_need_others_use():
    core = Core(*fleet(a=8), reservation_seconds=10 * MINUTE)
    stream = Stream(core, minutes=5, waiting=8)
    stream.flow(10)
    core.put(*training("g", 2, claims=(3,)))
    assert stream.until_reserved() == {}
    began = core.now
    others = stream.flow(10)
    assert others.keys() == {"g-0", "g-1"}
    during = [name for name, when in stream.started.items() if began < when < max(others.values())]
    assert during


def test_a_place_is_kept_for_a_bounded_time_and_then_it_is_the_turn_of_others():
    core = Core(*fleet(a=8), reservation_seconds=10 * MINUTE)
    # It runs on and on, and nobody knows how long.
    core.put(objects.claim("long"), pod("long", claims=["long"]))
    core.settle(1)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("g", 2, claims=(4,)))
    assert stream.until_reserved() == {}
    began = core.now
    while core.scheduler.reservations.active:
        assert stream.flow(0.5) == {}
    assert 9 * MINUTE < core.now - began <= 10 * MINUTE
    assert core.scheduler.reservations.given_up == 1
    # As long as it was kept others are not kept off; then for twice as long.
    ended = core.now
    stream.flow(5)
    assert len(stream.began) == 7
    stream.until_reserved()
    assert core.now - ended >= 10 * MINUTE
    stream.flow(19)
    assert core.scheduler.reservations.active


def test_nobody_is_kept_off_for_a_group_that_can_never_start():
    core = Core(*fleet(a=8, b=8), reservation_seconds=10 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("g", 3, claims=(8,)))
    for _ in range(20):
        stream.flow(1)
        assert not core.scheduler.reservations.active
    assert core.scheduler.reservations.begun == 0


def test_nobody_is_kept_off_where_only_endless_pods_are_in_the_way():
    core = Core(*fleet(a=8), reservation_seconds=10 * MINUTE)
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True, "apiVersion": "apps/v1"}
    web = pod("web", claims=["web"], restartPolicy="Always")
    web["metadata"]["ownerReferences"] = [owner]
    core.put(objects.claim("web"), web)
    core.settle(1)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("g", 2, claims=(4,)))
    stream.flow(10)
    assert core.scheduler.reservations.begun == 0


def test_nobody_is_kept_off_as_long_as_nobody_went_past():
    core = Core(*fleet(a=2), reservation_seconds=10 * MINUTE)
    core.put(*small(1), *small(2))
    core.settle(1)
    core.put(*training("g", 2, claims=(1,)))
    core.settle(MINUTE)
    core.settle(MINUTE)
    assert len(core.scheduler.reservations.waiting) == 1
    assert not core.scheduler.reservations.active


def test_an_impossible_group_does_not_take_the_turn_of_another():
    core = Core(*fleet(a=8, b=8), reservation_seconds=10 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("never", 3, claims=(8,)))
    stream.flow(1)
    core.put(*training("later", 2, claims=(8,)))
    assert stream.flow(15).keys() == {"later-0", "later-1"}


def test_the_rack_that_is_emptiest_is_reserved():
    core = Core(*fleet(a1=4, a2=4, b1=4, b2=4), reservation_seconds=10 * MINUTE)
    stream = Stream(core, minutes=1000, waiting=0)
    for number in range(16):
        core.put(*small(number))
    placed = bound(core.settle(1))
    stream.flow(1)
    # One pod of rack b ends, and a newer one takes its place.
    ended = next(name for name, node in placed.items() if node == "b1")
    core.put(*training("g", 2, claims=(4,), group={"schedulingConstraints": {"topology": [{"key": "rack"}]}}))
    core.settle(1)
    core.remove_with_claims(ended)
    core.put(*small(100))
    assert bound(core.settle(1)) == {"s100": "b1"}
    others = [name for name, node in placed.items() if node == "b2"]
    core.now += MINUTE
    core.remove_with_claims(others[0])
    core.settle(15)
    assert core.scheduler.reservations.active
    places = {kept.place.node for kept in core.scheduler.nominations._kept.values()}
    assert places == {"b1", "b2"}
    # What became free there nobody gets; the rest of them ends, and the gang starts.
    core.put(*small(101))
    assert bound(core.settle(15)) == {}
    for name in [*others[1:], "s100", *(each for each, node in placed.items() if node == "b1" and each != ended)]:
        core.remove_with_claims(name)
    assert bound(core.settle(15)).keys() >= {"g-0", "g-1"}


def test_the_more_urgent_take_the_place_all_the_same():
    core = Core(*fleet(a=8), reservation_seconds=10 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("g", 2, claims=(4,)))
    stream.until_reserved()
    core.put(objects.claim("urgent"), pod("urgent", claims=["urgent"], value=100, preemptionPolicy="Never"))
    assert stream.flow(6).keys() >= {"urgent"}


def test_a_group_that_is_deleted_keeps_nothing():
    core = Core(*fleet(a=8), reservation_seconds=10 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("g", 2, claims=(4,)))
    stream.until_reserved()
    core.remove("Pod", "g-0")
    assert not core.scheduler.reservations.active
    core.remove("PodGroup", "g")
    assert not core.scheduler.reservations.waiting
    assert not core.scheduler.nominations._kept


def test_a_group_whose_pods_are_deleted_is_in_nobodys_way():
    core = Core(*fleet(a=8, b=8, c=8), reservation_seconds=10 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("withdrawn", 2, claims=(8,)))
    stream.flow(1)
    assert len(core.scheduler.reservations.waiting) == 1
    core.remove("Pod", "withdrawn-0")
    core.remove("Pod", "withdrawn-1")
    assert not core.scheduler.reservations.waiting
    core.put(*training("g", 2, claims=(8,)))
    assert stream.flow(12).keys() == {"g-0", "g-1"}


def test_a_group_that_lacks_pods_is_in_nobodys_way():
    core = Core(*fleet(a=8, b=8, c=8), reservation_seconds=10 * MINUTE)
    stream = Stream(core)
    stream.flow(10)
    core.put(*training("short", 2, claims=(8,)))
    stream.flow(1)
    core.remove("Pod", "short-0")
    core.put(*training("g", 2, claims=(8,)))
    assert stream.flow(12).keys() == {"g-0", "g-1"}
