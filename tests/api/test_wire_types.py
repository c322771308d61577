"""The table of wire types: how it is made, and that models which others made of the API know the same fields."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from dray.api import catalogue, wire_types
from dray.api.wire_fields import FIELDS
from dray.api.wire_types import TYPES
from dray.server.openapi.descriptions import describe

TOOL = Path(__file__).parents[2] / "tools" / "generate_wire_types.py"
PROTO = """
syntax = "proto2";
package k8s.io.api.zoo.v1;

message Cage {
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;
  // optional string not = 9;
  optional Contents contents = 2;
  repeated string keepers = 3;
  map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> food = 4;
  optional int32 doors = 5;
  optional bool locked = 6;
}
message Contents {
  optional bytes photo = 1;
  optional Contents inner = 2;
}
"""
GO = """
const GroupName = "zoo.example.com"

type Cage struct {
\tmetav1.TypeMeta `json:",inline"`
\tmetav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
\tContents `json:",inline" protobuf:"bytes,2,opt,name=contents"`
\t// Who has a key.
\tKeepers []string `json:"who" protobuf:"bytes,3,rep,name=keepers"`
\tFood corev1.ResourceList `json:"food,omitempty" protobuf:"bytes,4,rep,name=food"`
\tDoors *int32 `json:"doors" protobuf:"varint,5,opt,name=doors"`
\tLocked *bool `json:"locked,omitempty" protobuf:"varint,6,opt,name=locked"`
}
type Contents struct {
\tPhoto []byte `json:"photo,omitempty" protobuf:"bytes,1,opt,name=photo"`
\tInner *Contents `json:"inner,omitempty" protobuf:"bytes,2,opt,name=inner"`
}
"""
META = """
package k8s.io.apimachinery.pkg.apis.meta.v1;

message ObjectMeta {
  optional string name = 1;
}
message TypeMeta {
}
message WatchEvent {
}
"""
RUNTIME = """
package k8s.io.apimachinery.pkg.runtime;

message TypeMeta {
}
message Unknown {
}
"""


def test_the_table_is_made_from_messages_and_tags(tmp_path):
    for folder, proto, go in (
        ("api/zoo/v1", PROTO, GO),
        ("apimachinery/pkg/apis/meta/v1", META, ""),
        ("apimachinery/pkg/runtime", RUNTIME, ""),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "generated.proto").write_text(proto)
        (tmp_path / folder / "types.go").write_text(go)
    done = subprocess.run([sys.executable, TOOL, tmp_path, "--print"], capture_output=True, text=True, check=True)
    versions, _, types = done.stdout.partition("\n\n")
    assert "zoo.example.com/v1 zoo_v1" in versions.splitlines()
    assert (
        "zoo_v1.Cage apiVersion=0str doors=5!*int32 food=4{}quantity inner=2/2zoo_v1.Contents kind=0str"
        " locked=6*bool metadata=1!meta_v1.ObjectMeta photo=2/1bytes who=3![]str"
    ) in types.splitlines()
    assert "zoo_v1.Contents inner=2zoo_v1.Contents photo=1bytes" in types.splitlines()


def _models():
    spec = importlib.util.find_spec("lightkube")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("lightkube-models is not installed")
    return sorted(path.stem for path in Path(spec.submodule_search_locations[0], "models").glob("*_v*.py"))


def test_the_models_of_lightkube_have_the_same_fields():
    """They are made from the OpenAPI document, the table from the Go types."""
    modules = {name.partition(".")[0] for name in TYPES}
    compared = 0
    for module in _models():
        assert module in modules
    for name in TYPES:
        told = {field.rstrip("_") for field in describe(name).fields}
        if told and name != "apiextensions_v1.JSONSchemaProps":  # Its names are no names in Python.
            assert told == set(TYPES[name]), name
            compared += 1
    assert compared > 800


def test_types_name_only_types_that_are_there():
    for name in TYPES:
        for mark in TYPES[name].values():
            base = mark.lstrip("!*[]{}")
            assert "." not in base or base in TYPES, (name, mark)


def test_numbers_are_unique_in_a_message():
    for name in FIELDS:
        numbers = [field.numbers for field in wire_types.fields(name) if field.numbers != (0,)]
        assert len(set(numbers)) == len(numbers), name


@pytest.mark.parametrize("version", list(catalogue.every_version()), ids=lambda v: f"{v.api_version}.{v.kind}")
def test_every_kind_of_the_catalogue_has_its_type(version):
    assert wire_types.type_of(version.api_version, version.kind) == version.schema


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("v1", "PodList", "core_v1.PodList"),
        ("v1", "Status", "meta_v1.Status"),
        ("apps/v1", "DeleteOptions", "meta_v1.DeleteOptions"),
        ("example.com/v1", "DeleteOptions", "meta_v1.DeleteOptions"),
        ("meta.k8s.io/v1", "PartialObjectMetadataList", "meta_v1.PartialObjectMetadataList"),
    ],
)
def test_the_type_of_a_kind(api_version, kind, expected):
    assert wire_types.type_of(api_version, kind) == expected


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("example.com/v1", "Status"), ("v1", "ObjectMeta"), ("v1", "Container"), ("v2", "Pod"), ("", "")],
)
def test_what_is_no_kind_has_no_type(api_version, kind):
    assert wire_types.type_of(api_version, kind) is None
