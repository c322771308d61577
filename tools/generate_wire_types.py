"""Writes src/dray/api/wire_fields.txt from the published sources of the Kubernetes API.

    python tools/generate_wire_types.py DIRECTORY [--check | --print]

DIRECTORY holds `api`, `apimachinery`, `apiextensions-apiserver` and `kube-aggregator`, as `staging/src/k8s.io` of
Kubernetes does. The number and the type of a field come from `generated.proto`, its JSON name, and whether its zero is
left out or told from an absent one, from the tags of the Go type of the same name. Groups come from `register.go`.
Only the versions that Kubernetes 1.37 serves are kept. src/dray/api/wire_fields.py tells the form of the file,
wire_types.py the notation of a type.

`--check` only says whether the file is what would be written, `--print` only prints it.
"""

from __future__ import annotations

import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "dray" / "api" / "wire_fields.txt"

REMOVED = frozenset(
    "admission_v1beta1 apiextensions_v1beta1 apiregistration_v1beta1 apps_v1beta1 apps_v1beta2 authentication_v1alpha1"
    " authentication_v1beta1 authorization_v1beta1 batch_v1beta1 discovery_v1beta1 events_v1beta1 extensions_v1beta1"
    " flowcontrol_v1beta1 flowcontrol_v1beta2 flowcontrol_v1beta3 imagepolicy_v1alpha1 meta_v1beta1 node_v1alpha1"
    " node_v1beta1 policy_v1beta1 rbac_v1alpha1 rbac_v1beta1 testapigroup_v1".split()
)
# Messages that stand for something else than an object in JSON.
SPECIAL = {
    "meta_v1.Time": "time",
    "meta_v1.MicroTime": "microtime",
    "meta_v1.FieldsV1": "raw",
    "api_resource.Quantity": "quantity",
    "pkg_runtime.RawExtension": "raw",
    "util_intstr.IntOrString": "intstr",
    "apiextensions_v1.JSON": "any",
    "apiextensions_v1.JSONSchemaPropsOrArray": "or_array",
    "apiextensions_v1.JSONSchemaPropsOrBool": "or_bool",
    "apiextensions_v1.JSONSchemaPropsOrStringArray": "or_strings",
}
# Messages that stand for something else too, and that no kind has: the codec does not know them.
UNKNOWN = frozenset({"meta_v1.Duration", "meta_v1.Timestamp"})
PLAIN = {"string": "str", "bytes": "bytes", "int32": "int32", "int64": "int64", "bool": "bool", "double": "float"}
# Types of which Go leaves out a zero when it is told to leave out what is empty.
EMPTIES = frozenset({"str", "bytes", "int32", "int64", "bool", "float", "strings"})

_PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (optional|repeated|map<string,) ?([\w.]+)>? (\w+) = (\d+);", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_TAGGED = re.compile(r"^\t(?:(\w+)\s+)?(\S+)\s+`(.*?)`", re.MULTILINE)
_TAG = re.compile(r'(json|protobuf):"([^"]*)"')
_STRINGS = re.compile(r"^type (\w+) \[\]string", re.MULTILINE)
_GROUP = re.compile(r'^const GroupName = "([^"]*)"', re.MULTILINE)


class GoField(NamedTuple):
    # Empty for a field whose members JSON has in its place.
    json: str
    pointer: bool
    omit_empty: bool
    omit_zero: bool


class Package:
    """One version of a group: its messages, and the tags of the Go types they are made from."""

    def __init__(self, proto: pathlib.Path) -> None:
        text = proto.read_text()
        declared = _PACKAGE.search(text)
        assert declared is not None, proto
        self.package = declared[1]
        self.name = module(self.package)
        self.messages = dict(_MESSAGE.findall(re.sub(r"^\s*//.*\n", "", text, flags=re.MULTILINE)))
        self.tags: dict[str, dict[int, GoField]] = {}
        self.kinds: set[str] = set()
        # Lists that are messages of their own.
        self.lists: set[str] = set()
        self.group = ""
        for source in sorted(proto.parent.glob("*.go")):
            if not source.name.startswith(("zz_", "generated")) and not source.name.endswith("_test.go"):
                self._read_go(source.read_text())

    def _read_go(self, text: str) -> None:
        if found := _GROUP.search(text):
            self.group = found[1]
        self.lists.update(_STRINGS.findall(text))
        for name, body in _STRUCT.findall(text):
            for go_name, go_type, tag in _TAGGED.findall(body):
                given = dict(_TAG.findall(tag))
                if not go_name and go_type.endswith("TypeMeta") and "protobuf" not in given:
                    self.kinds.add(name)
                elif given.get("protobuf", "-") != "-":
                    json, *options = given.get("json", "").split(",")
                    number = int(given["protobuf"].split(",")[1])
                    field = GoField(
                        json or go_name, go_type.startswith("*"), "omitempty" in options, "omitzero" in options
                    )
                    self.tags.setdefault(name, {})[number] = field


class Types:
    def __init__(self, directory: pathlib.Path) -> None:
        packages = [Package(proto) for proto in sorted(directory.glob("*/**/generated.proto"))]
        self.packages = {each.name: each for each in packages if each.name not in REMOVED}
        self.found: dict[str, str] = {}
        self.kinds: dict[str, str] = {}

    def collect(self) -> None:
        waiting = []
        for package in self.packages.values():
            names = sorted(package.kinds & package.messages.keys())
            waiting += [f"{package.name}.{name}" for name in names]
            if names:
                version = package.name.rpartition("_")[2]
                gv = f"{package.group}/{version}" if package.group else version
                self.kinds[gv] = package.name
        waiting.append("pkg_runtime.TypeMeta")
        while waiting:
            name = waiting.pop()
            if name not in self.found:
                members = self.members(name)
                self.found[name] = " ".join(f"{at}={mark}" for at, mark in sorted(members.items()))
                waiting += [base for mark in members.values() if "." in (base := mark.lstrip("0123456789/!*[]{}"))]

    def members(self, name: str) -> dict[str, str]:
        """By JSON name: the number, the marks and the type; what is inlined in JSON has the numbers that lead to it."""
        module_name, _, short = name.partition(".")
        package = self.packages[module_name]
        found = {"apiVersion": "0str", "kind": "0str"} if short in package.kinds else {}
        for label, proto_type, proto_name, number in _FIELD.findall(package.messages[short]):
            tag = package.tags.get(short, {}).get(int(number))
            if tag is None:
                # Messages of the runtime have no Go type with tags.
                tag = GoField(proto_name, pointer=False, omit_empty=True, omit_zero=False)
            base = self.type_name(package, proto_type)
            if not tag.json:
                for at, mark in self.members(base).items():
                    if not mark.startswith("0"):
                        found[at] = f"{number}/{mark}"
                continue
            prefix = {"repeated": "[]", "optional": ""}.get(label, "{}")
            found[tag.json] = f"{number}{marks(tag, prefix, base)}{prefix}{base}"
        return found

    def type_name(self, package: Package, proto_type: str) -> str:
        if proto_type in PLAIN:
            return PLAIN[proto_type]
        path, _, name = proto_type.lstrip(".").rpartition(".")
        where = module(path or package.package)
        if where in self.packages and name in self.packages[where].lists:
            return "strings"
        if f"{where}.{name}" in UNKNOWN:
            raise SystemExit(f"{package.name} uses {where}.{name}: teach it to src/dray/api/protobuf/values.py")
        return SPECIAL.get(f"{where}.{name}", f"{where}.{name}")


def marks(tag: GoField, prefix: str, base: str) -> str:
    """`!`: always in JSON; `*`: a zero is told from an absent value, and after `!` an absent value is null."""
    if prefix:
        return "" if tag.omit_empty or tag.omit_zero else "!"
    if tag.pointer:
        if not tag.omit_empty and not tag.omit_zero:
            return "!*"
        return "*" if base in EMPTIES else ""
    omitted = tag.omit_zero or (tag.omit_empty and base in EMPTIES)
    return "" if omitted else "!"


def module(package: str) -> str:
    return "_".join(package.split(".")[-2:])


def generate(directory: pathlib.Path) -> str:
    types = Types(directory)
    types.collect()
    return "\n".join((*_rows(types.kinds), "", *_rows(types.found), ""))


def _rows(table: dict[str, str]) -> list[str]:
    return [f"{name} {value}".rstrip() for name, value in sorted(table.items())]


def main(directory: str, mode: str = "") -> None:
    text = generate(pathlib.Path(directory))
    if mode == "--print":
        print(text)
    elif mode == "--check":
        raise SystemExit(0 if TARGET.read_text() == text else "wire_fields.txt is out of date: run `make schema`")
    else:
        TARGET.write_text(text)
        print(f"{TARGET.relative_to(ROOT)}: {text.count(chr(10))} lines")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
