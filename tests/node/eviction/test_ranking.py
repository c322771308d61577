"""Order of eviction: more than asked for, then priority, then how much more."""

from dray.node.eviction.ranking import PodConsumption, message, ranked
from dray.node.eviction.thresholds import DISK, MEMORY, PIDS, Observation, Threshold
from dray.testing.objects import pod

MIB = 1 << 20


def user(name, used, *, asked=None, priority=0, disk=0, **members):
    made = pod(name, requests={"memory": asked} if asked else None, priority=priority, **members)
    return PodConsumption(made, {"main": used * MIB}, disk)


def order(signal, *users):
    return [each.pod["metadata"]["name"] for each in ranked(users, signal)]


def test_memory():
    within = user("within", 90, asked="100Mi", priority=-5)
    little, much = user("little", 10), user("much", 50)
    important = user("important", 500, priority=100)
    assert order(MEMORY, within, important, little, much) == ["much", "little", "important", "within"]


def test_disk_and_process_ids():
    assert order(DISK, user("a", 500, disk=1), user("b", 1, disk=2)) == ["b", "a"]
    assert order(PIDS, user("a", 1, priority=1), user("b", 1)) == ["b", "a"]


def test_static_and_system_pods_are_spared():
    system = user("system", 500, priority=2_000_000_000)
    static = user("static", 500, annotations={"kubernetes.io/config.hash": "x"})
    assert order(MEMORY, system, static, user("other", 1)) == ["other"]


def test_the_message_tells_what_was_low_and_who_used_how_much():
    said = message(Threshold(MEMORY, 100 * MIB), Observation(50 * MIB, 1000 * MIB), user("p", 20, asked="10Mi"))
    assert said == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
        "Container main was using 20Mi, request is 10Mi, has larger consumption of memory. "
    )
