"""The place of one that waits is kept from the moment on that others are said to make room for it."""

from dray.scheduling.model.making_room import ANNOTATION, mark
from dray.testing import objects
from tests.scheduling.core import Core, binds, bound, pod
from tests.scheduling.test_consolidation import fleet, running, scattered, wanting
from tests.scheduling.test_reserved_places import training


def say(core, name, title, until=600.0):
    known = core.get("Pod", name)
    annotations = {ANNOTATION: mark(title, until)}
    return core.put({**known, "metadata": {**known["metadata"], "annotations": annotations}})


def newcomer(core, name="again"):
    core.put(objects.claim(name), pod(name, claims=[name]))


def nominated(actions):
    return [each.preemption for each in actions if not binds([each]) and each.preemption is not None]


def test_the_place_of_a_pod_is_kept_before_anybody_goes():
    core = Core(*fleet(a=4), *scattered("a"), *wanting("large", 4))
    core.settle()
    say(core, "on-a", "Pod default/large")
    (kept,) = nominated(core.later())
    assert [place.node for place in kept.places.values()] == ["a"]
    assert kept.victims == ()
    newcomer(core)
    assert bound(core.settle()) == {}
    core.remove_with_claims("on-a")
    assert bound(core.settle()) == {"large": "a"}


def test_the_places_of_a_group_are_kept_before_anybody_goes():
    core = Core(*fleet(a=4, b=4), *scattered("a", "b"))
    core.put(*training("g", 2, claims=(4,)))
    core.settle()
    say(core, "on-a", "PodGroup default/g")
    assert not nominated(core.later())
    say(core, "on-b", "PodGroup default/g")
    (kept,) = nominated(core.later())
    assert {each.node for each in kept.places.values()} == {"a", "b"}
    assert kept.victims == ()
    newcomer(core)
    core.remove_with_claims("on-a")
    assert bound(core.settle()) == {}
    core.remove_with_claims("on-b")
    assert bound(core.settle()).keys() == {"g-0", "g-1"}


def test_nothing_is_kept_once_the_time_is_over():
    core = Core(*fleet(a=4), *scattered("a"), *wanting("large", 4))
    core.settle()
    say(core, "on-a", "Pod default/large", until=core.now + 100)
    assert nominated(core.later())
    newcomer(core)
    assert bound(core.later(50)) == {}
    assert bound(core.later(400)) == {"again": "a"}


def test_who_is_more_urgent_or_speaks_of_another_makes_no_room():
    core = Core(*fleet(a=4), *running("urgent", "a", 0, value=10), *wanting("large", 4))
    core.settle()
    say(core, "urgent", "Pod default/large")
    assert not nominated(core.later())
    core = Core(*fleet(a=4), *scattered("a"), *wanting("large", 4))
    core.settle()
    for text in ("Pod default/other", "PodGroup default/large", ""):
        say(core, "on-a", text)
        assert not nominated(core.later())


def test_the_places_of_a_group_are_kept_while_devices_of_those_that_went_are_given_back():
    core = Core(*fleet(a=4), *scattered("a"))
    core.put(*training("g", 2, claims=(2,)))
    core.settle()
    say(core, "on-a", "PodGroup default/g")
    assert nominated(core.later())
    core.remove("Pod", "on-a")
    newcomer(core)
    assert bound(core.later()) == {}
    core.release("on-a")
    assert bound(core.settle()).keys() == {"g-0", "g-1"}
