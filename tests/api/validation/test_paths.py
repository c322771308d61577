"""Paths in pods, and NUL characters, which no node could hand to its kernel."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.objects import POD, causes, changed, create

PODINFO = {"fieldRef": {"fieldPath": "metadata.name"}}


def volume(**source: Any) -> set[str]:
    problems = causes(create(changed(POD, {"spec.volumes": [{"name": "v", **source}]})))
    return {problem.removeprefix("spec.volumes[0].") for problem in problems}


def mount(**members: Any) -> set[str]:
    mounted = {"name": "v", "mountPath": "/v", **members}
    members = {"spec.volumes": [{"name": "v", "emptyDir": {}}], "spec.containers.0.volumeMounts": [mounted]}
    return {cause.removeprefix("spec.containers[0].") for cause in causes(create(changed(POD, members)))}


@pytest.mark.parametrize(
    ("path", "accepted"),
    [("a/b", True), ("a..b", True), ("a/..b", True), ("..", False), ("../a", False), ("a/../b", False), ("..a", False)],
)
def test_files_of_volumes_stay_below_them_and_leave_the_names_of_the_node_alone(path: str, accepted: bool) -> None:
    items = [{"key": "k", "path": path}]
    assert volume(configMap={"name": "c", "items": items}) == (
        set() if accepted else {"configMap.items[0].path Invalid"}
    )
    assert volume(secret={"secretName": "s", "items": items}) == (
        set() if accepted else {"secret.items[0].path Invalid"}
    )
    found = volume(downwardAPI={"items": [{"path": path, **PODINFO}]})
    assert found == (set() if accepted else {"downwardAPI.path Invalid"})


def test_files_of_volumes_have_relative_paths_keys_and_modes() -> None:
    found = volume(configMap={"name": "c", "items": [{"key": "", "path": "/a", "mode": 0o1000}], "defaultMode": -1})
    assert found == {
        "configMap.items[0].key Required",
        "configMap.items[0].path Invalid",
        "configMap.items[0].mode Invalid",
        "configMap.defaultMode Invalid",
    }
    assert volume(downwardAPI={"items": [{"path": "a"}]}) == {"downwardAPI Required"}


@pytest.mark.parametrize("member", ["subPath", "subPathExpr"])
def test_a_part_of_a_volume_is_below_it(member: str) -> None:
    assert mount(**{member: "a/..b"}) == set()
    assert mount(**{member: "..a"}) == set(), "only files of the API have reserved names"
    assert mount(**{member: "a/../b"}) == {f"volumeMounts.{member} Invalid"}
    assert mount(**{member: "/a"}) == {f"volumeMounts.{member} Invalid"}


def test_one_part_of_a_volume_is_mounted() -> None:
    assert mount(subPath="a", subPathExpr="b") == {"volumeMounts[0].subPathExpr Invalid"}


def test_a_host_path_does_not_go_up_and_is_of_a_known_type() -> None:
    assert volume(hostPath={"path": "/a/..b", "type": "Directory"}) == set()
    assert volume(hostPath={"path": "/a/../b"}) == {"hostPath.path Invalid"}
    assert volume(hostPath={"path": "/a", "type": "Folder"}) == {"hostPath.type NotSupported"}


@pytest.mark.parametrize(
    "source",
    [
        {"hostPath": {"path": "/a\0"}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "a\0"}]}},
        {"downwardAPI": {"items": [{"path": "a\0", **PODINFO}]}},
        {"projected": {"sources": [{"serviceAccountToken": {"path": "a\0"}}]}},
    ],
)
def test_no_volume_has_a_nul_in_a_path(source: dict[str, Any]) -> None:
    (problem,) = volume(**source)
    assert problem.endswith("path Invalid")


@pytest.mark.parametrize(
    "members",
    [
        {"command": ["sh\0"]},
        {"args": ["a", "\0"]},
        {"workingDir": "/\0"},
        {"terminationMessagePath": "/dev/\0"},
        {"env": [{"name": "A", "value": "\0"}]},
        {"lifecycle": {"preStop": {"exec": {"command": ["\0"]}}}},
    ],
)
def test_no_container_has_a_nul_in_what_it_runs(members: dict[str, Any]) -> None:
    named = {f"spec.containers.0.{name}": value for name, value in members.items()}
    (problem,) = causes(create(changed(POD, named)))
    assert problem.startswith(f"spec.containers[0].{next(iter(members))}")


@pytest.mark.parametrize("member", ["mountPath", "subPath", "subPathExpr"])
def test_no_mount_has_a_nul_in_its_path(member: str) -> None:
    assert mount(**{member: "a\0"}) == {f"volumeMounts[0].{member} Invalid"}


def test_other_control_characters_are_left_to_the_node() -> None:
    assert mount(subPath="a\nb\x7f") == set()
