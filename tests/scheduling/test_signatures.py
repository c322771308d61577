from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.scheduling.model.pod_terms import selector_text
from dray.scheduling.model.signatures import Signatures
from tests.scheduling.models import HOSTNAME, apart, container, document, near, spread, term


def test_pods_that_need_the_same_share_their_needs() -> None:
    kinds = Signatures()
    first = kinds.requirements(document("a", labels={"app": "x"}, containers=[container(cpu="1")]))
    assert kinds.requirements(document("b", labels={"app": "y"}, containers=[container(cpu="1")])) is first
    assert kinds.requirements(document("c", containers=[container(cpu="2")])) is not first


def test_labels_and_namespace_tell_pods_with_terms_apart() -> None:
    kinds = Signatures()
    rules = apart(term())
    first = kinds.requirements(document("a", labels={"app": "x"}, affinity=rules))
    assert kinds.requirements(document("b", labels={"app": "x"}, affinity=rules)) is first
    assert kinds.requirements(document("c", labels={"app": "y"}, affinity=rules)) is not first
    assert kinds.requirements(document("d", labels={"app": "x"}, namespace="other", affinity=rules)) is not first
    node_only: dict[str, Any] = {"nodeAffinity": {}}
    assert kinds.requirements(document("e", affinity=node_only)) is kinds.requirements(
        document("f", namespace="other", affinity=node_only)
    )


def test_the_kinds_that_were_not_seen_lately_are_forgotten() -> None:
    kinds = Signatures(most=2)
    one, two, three = (document(containers=[container(cpu=str(n))]) for n in (1, 2, 3))
    first, second = kinds.requirements(one), kinds.requirements(two)
    assert kinds.requirements(one) is first
    kinds.requirements(three)
    assert kinds.requirements(one) is first
    assert kinds.requirements(two) is not second


def test_ports() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}, {"hostPort": 1, "protocol": "UDP"}]
    plain = {**container(), "ports": ports}
    init = {**container(), "ports": [{"hostPort": 7}]}
    sidecar = {**container(), "ports": [{"hostPort": 9, "hostIP": "10.0.0.1"}], "restartPolicy": "Always"}
    needs = Signatures().requirements(document(containers=[plain], initContainers=[init, sidecar]))
    assert needs.ports == {("TCP", "0.0.0.0", 8080), ("UDP", "0.0.0.0", 1), ("TCP", "10.0.0.1", 9)}
    needs = Signatures().requirements(document(containers=[plain], hostNetwork=True))
    assert ("TCP", "0.0.0.0", 81) in needs.ports


@pytest.mark.parametrize(
    ("image", "expected"),
    [("a", "a:latest"), ("r:5000/a", "r:5000/a:latest"), ("r:5000/a:1", "r:5000/a:1"), ("a@sha256:0", "a@sha256:0")],
)
def test_images_have_a_tag(image: str, expected: str) -> None:
    assert Signatures().requirements(document(containers=[{"image": image}])).images == (expected,)


def test_terms_are_filled_in_from_the_pod() -> None:
    labels = {"app": "x", "rev": "7"}
    rules = {
        **near(term(match={"app": "x"}, matchLabelKeys=["rev", "absent"], mismatchLabelKeys=["app"])),
        **apart(term(namespaceSelector={}), preferred=((5, term(namespaces=["a"])),)),
    }
    needs = Signatures().requirements(
        document(labels=labels, affinity=rules, topologySpreadConstraints=[spread(match={"a": "b"})])
    )
    terms = needs.pod_terms
    (wanted,) = terms.affinity
    assert wanted.selector.namespaces == {"default"}
    added = [
        {"key": "rev", "operator": "In", "values": ["7"]},
        {"key": "app", "operator": "NotIn", "values": ["x"]},
    ]
    assert wanted.selector.selector == selector_text({"matchLabels": {"app": "x"}, "matchExpressions": added})
    (other,) = terms.anti_affinity
    assert not other.selector.namespaces
    assert [(weight, each.selector.namespaces) for weight, each in terms.preferred] == [(-5, {"a"})]
    assert terms.do_not_schedule[0].selector.namespaces == {"default"}
    assert needs.pod_terms
    assert not Signatures().requirements(document()).pod_terms


def test_keys_that_the_server_added_are_not_added_twice() -> None:
    added = {"key": "rev", "operator": "In", "values": ["7"]}
    each = {"topologyKey": HOSTNAME, "labelSelector": {"matchExpressions": [added]}, "matchLabelKeys": ["rev"]}
    needs = Signatures().requirements(document(labels={"rev": "7"}, affinity=near(each)))
    assert needs.pod_terms.affinity[0].selector.selector == selector_text({"matchExpressions": [added]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "1", "Always", "100m"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                "resources requests limits ports image cpu hostPort podAffinity podAntiAffinity nodeAffinity weight "
                "podAffinityTerm labelSelector matchExpressions matchLabels matchLabelKeys namespaces topologyKey "
                "requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution".split()
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
MEMBERS = st.sampled_from(
    "containers initContainers overhead resources nodeSelector affinity tolerations topologySpreadConstraints".split()
)


@given(st.none() | st.dictionaries(MEMBERS, JSON))
def test_odd_documents_have_needs_too(spec: Any) -> None:
    kinds = Signatures()
    odd = {"metadata": {"name": "p", "namespace": "default", "labels": None}, "spec": spec}
    assert kinds.requirements(odd) is kinds.requirements(odd)
