"""Claims as watched, written and decided: the newest counts, and devices are never freed too early."""

import pytest

from dray.allocation import Inventory
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.model.messages import status_text
from dray.testing import objects
from tests import gpus
from tests.scheduling.core import holding

KEY = ("default", "c")
ALLOCATION = holding("c", "gpu-0")["status"]["allocation"]
DEVICE = (objects.DRIVER, "n", "gpu-0")


class Book(ClaimAssumeCache):
    def __init__(self):
        self.inventory = Inventory(slices=[gpus.slice_of("n", 2)])
        self.told = []
        super().__init__(self.inventory, self._note("freed"), self._note("taken"))

    def _note(self, what):
        return lambda devices: self.told.extend((what, device[2]) for device in devices)

    @property
    def used(self):
        return sorted(device[2] for device in self.inventory.usage.devices)


def claim(version, *, uid="u", document=None, **metadata):
    made = document or objects.claim("c")
    metadata = {"name": "c", "namespace": "default", "uid": uid, "resourceVersion": str(version), **metadata}
    return {**made, "metadata": metadata}


def allocated(version, device="gpu-0", **members):
    return claim(version, document=holding("c", device, users=["p"]), **members)


def decided(book):
    """As the scheduler does: the devices are taken, then the claim is noted."""
    book.inventory.follow(book.inventory.usage.hold(KEY, ALLOCATION["devices"]["results"]))
    book.assume(KEY, ALLOCATION)


def deciding():
    """A claim is allocated here, and the server has not answered yet."""
    book = Book()
    book.put(claim(1))
    decided(book)
    return book


def test_what_an_allocated_claim_holds_is_in_use():
    book = Book()
    assert book.put(allocated(1))
    assert book.used == ["gpu-0"]
    assert [each["metadata"]["name"] for each in book.used_by("p")] == ["c"]
    assert book.put(claim(2))
    assert book.used == []
    assert book.used_by("p") == []
    assert book.told == [("taken", "gpu-0"), ("freed", "gpu-0")]


@pytest.mark.parametrize("version", [5, 4, "5"])
def test_what_is_not_newer_is_no_news(version):
    book = Book()
    book.put(allocated(5))
    assert not book.put(claim(version))
    assert book.used == ["gpu-0"]


def test_versions_that_are_not_numbers_count_as_news():
    book = Book()
    book.put(claim("abc"))
    assert book.put(claim("abd"))
    assert not book.put(claim("abd"))


def test_a_decision_outlasts_events_until_it_is_confirmed():
    book = deciding()
    book.put(claim(2))
    assert book.assumed(KEY)
    assert book.used == ["gpu-0"]
    book.confirm(KEY, allocated(3))
    assert not book.assumed(KEY)
    assert book.used == ["gpu-0"]
    # What the watch says late is older than the answer.
    book.put(claim(2))
    assert book.used == ["gpu-0"]


def test_the_watch_may_be_faster_than_the_answer():
    book = deciding()
    book.put(allocated(3))
    book.confirm(KEY, allocated(3))
    assert book.used == ["gpu-0"]


def test_a_claim_that_was_released_before_the_answer_came_is_released():
    book = deciding()
    book.put(allocated(3))
    book.put(claim(4))
    book.confirm(KEY, allocated(3))
    assert book.used == []


def test_a_decision_that_is_forgotten_frees_its_devices():
    book = deciding()
    assert book.forget(KEY, ALLOCATION)
    assert book.used == []
    assert book.told[-1] == ("freed", "gpu-0")
    assert not book.forget(KEY, ALLOCATION)


def test_a_decision_that_somebody_else_overtook_gives_way():
    book = deciding()
    book.put(allocated(2, "gpu-1"))
    book.forget(KEY, ALLOCATION)
    assert book.used == ["gpu-1"]


def test_only_the_decision_that_is_in_force_can_be_forgotten():
    book = deciding()
    assert not book.forget(KEY, dict(ALLOCATION))
    assert book.assumed(KEY)


def test_a_claim_of_the_same_name_starts_anew():
    book = Book()
    book.put(allocated(5))
    assert book.put(claim(3, uid="other"))
    assert book.used == []
    assert not book.remove(allocated(6))
    assert book.get(KEY)["metadata"]["uid"] == "other"


def test_a_claim_that_is_gone_stays_gone():
    book = Book()
    book.put(allocated(1))
    assert book.remove(allocated(2))
    assert book.is_gone("u")
    assert not book.put(allocated(3))
    assert (book.used, len(book)) == ([], 0)


def special(pod):
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    return claim(1, annotations=annotations, ownerReferences=[{"kind": "Pod", "uid": pod, "controller": True}])


def test_claims_for_extended_resources_are_found_by_their_pod():
    book = Book()
    book.put(special("p"))
    assert book.extended("p")["metadata"]["name"] == "c"
    assert book.extended("q") is None
    book.remove(special("p"))
    assert book.extended("p") is None


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (
            gpus.pod("p", claims=["missing"]),
            "ResourceClaim default/missing not found: create it in namespace default, or correct resourceClaimName",
        ),
        (
            gpus.pod("p", templates=["t"]),
            "ResourceClaim not created yet; does ResourceClaimTemplate default/t exist?",
        ),
        (
            gpus.pod("p", claims=[""]),
            'pod "default/p", spec.resourceClaim "claim-0": none of the supported fields are set',
        ),
    ],
)
def test_claims_that_are_not_there(pod, text):
    pod["metadata"]["namespace"] = "default"
    status = Book().resolve(pod)
    assert status_text(status) == text


def test_the_claim_of_a_group_serves_its_pods():
    book = Book()
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "uid": "g", "controller": True}
    book.put(claim(1, ownerReferences=[owner]))
    pod = gpus.pod("p", templates=["t"], schedulingGroup={"podGroupName": "g"})
    pod["metadata"]["namespace"] = "default"
    pod["status"] = {"resourceClaimStatuses": [{"name": "template-0", "resourceClaimName": "c"}]}
    assert len(book.resolve(pod)) == 1
    other = {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": "other"}}}
    assert "not created for" in status_text(book.resolve(other))


def test_the_answer_about_a_claim_that_is_gone_says_nothing_about_its_successor():
    book = Book()
    book.put(claim(1))
    book.remove(claim(1))
    book.put(claim(5, uid="other"))
    decided(book)
    book.confirm(KEY, allocated(3))
    assert book.assumed(KEY)
    assert book.used == ["gpu-0"]


def test_with_a_user_less_others_may_be_asked_to_go_for_its_devices():
    book = Book()
    book.put(claim(1, document=holding("c", "gpu-0", users=["p", "q"])))
    book.told.clear()
    book.put(claim(2, document=holding("c", "gpu-0", users=["p", "q", "r"])))
    assert book.told == []
    book.put(claim(3, document=holding("c", "gpu-0", users=["p", "r"])))
    assert book.told == [("freed", "gpu-0")]
    assert book.used == ["gpu-0"]
