"""Where pods may be placed: tolerations, affinity to other pods, spreading, gates."""

import pytest

from tests.api.objects import POD, causes, changed, create

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def found(path, value):
    return {cause.removeprefix(path) for cause in causes(create(changed(POD, {path: value})))}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, set()),
        ({}, {".operator Invalid"}),
        ({"key": "a b", "operator": "Exists"}, {".key Invalid"}),
        ({"key": "a", "operator": "Exists", "value": "v"}, {".operator Invalid"}),
        ({"key": "a", "value": "v"}, set()),
        ({"key": "a", "value": "a b"}, {".operator Invalid"}),
        ({"key": "a", "operator": "Near"}, {".operator NotSupported"}),
        ({"key": "a", "operator": "Gt", "value": "5"}, set()),
        ({"key": "a", "operator": "Lt", "value": "-9223372036854775808"}, set()),
        ({"key": "a", "operator": "Gt", "value": "9223372036854775808"}, {".value Invalid"}),
        ({"key": "a", "operator": "Gt", "value": "9" * 4301}, {".value Invalid"}),
        ({"key": "a", "operator": "Gt", "value": "05"}, {".value Invalid"}),
        ({"key": "a", "operator": "Gt"}, {".value Invalid"}),
        ({"key": "a", "operator": "Exists", "effect": "Never"}, {".effect NotSupported"}),
        ({"key": "a", "operator": "Exists", "tolerationSeconds": 5}, {".effect Invalid"}),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, set()),
    ],
)
def test_tolerations(toleration, expected):
    assert found("spec.tolerations", [toleration]) == {f"[0]{cause}" for cause in expected}


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"maxSkew": -1}, {".maxSkew Invalid"}),
        ({"topologyKey": ""}, {".topologyKey Required"}),
        ({"whenUnsatisfiable": "Maybe"}, {".whenUnsatisfiable NotSupported"}),
        ({"minDomains": 0}, {".minDomains Invalid"}),
        ({"minDomains": 1, "whenUnsatisfiable": "ScheduleAnyway"}, {".minDomains Invalid"}),
        ({"nodeTaintsPolicy": "Obey"}, {".nodeTaintsPolicy NotSupported"}),
        ({"matchLabelKeys": ["a"]}, {".matchLabelKeys Forbidden"}),
        ({"matchLabelKeys": ["a b"], "labelSelector": {}}, {".matchLabelKeys[0] Invalid"}),
        ({"labelSelector": {"matchLabels": {"a": "b c"}}}, {".labelSelector.matchLabels Invalid"}),
    ],
)
def test_spreading(changes, expected):
    assert found("spec.topologySpreadConstraints", [{**SPREAD, **changes}]) == {f"[0]{cause}" for cause in expected}


def test_spreading_twice_in_the_same_way():
    assert found("spec.topologySpreadConstraints", [SPREAD, {**SPREAD, "maxSkew": 2}]) == {
        "[1].{topologyKey, whenUnsatisfiable} Duplicate"
    }


@pytest.mark.parametrize("member", ["podAffinity", "podAntiAffinity"])
def test_affinity_to_pods(member):
    terms = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["a"]},
        {"topologyKey": "", "namespaces": ["A"]},
        {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
    ]
    weighted = [{"weight": weight, "podAffinityTerm": terms[0]} for weight in (0, 1, 100, 101)]
    path = f"spec.affinity.{member}"
    assert found(path, {REQUIRED: terms, PREFERRED: weighted}) == {
        f".{REQUIRED}[1].topologyKey Required",
        f".{REQUIRED}[1].topologyKey Invalid",
        f".{REQUIRED}[1].namespace Invalid",
        f".{REQUIRED}[2].labelSelector.matchExpressions[0].operator Invalid",
        f".{PREFERRED}[0].weight Invalid",
        f".{PREFERRED}[3].weight Invalid",
    }


def test_gates_and_names():
    changes = {
        "spec.schedulingGates": [{"name": "a"}, {"name": "a"}, {"name": "a b"}],
        "spec.priorityClassName": "A",
        "spec.hostname": "a.b",
        "spec.preemptionPolicy": "Sometimes",
        "spec.activeDeadlineSeconds": 2**31,
    }
    assert causes(create(changed(POD, changes))) == {
        "spec.schedulingGates[1] Duplicate",
        "spec.schedulingGates[2] Invalid",
        "spec.priorityClassName Invalid",
        "spec.hostname Invalid",
        "spec.preemptionPolicy NotSupported",
        "spec.activeDeadlineSeconds Invalid",
    }
