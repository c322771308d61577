"""The types of the checker. A type is a kind, a name for opaque and object types, and parameters."""

from __future__ import annotations


class Type:
    """Immutable; what is asked often is computed once."""

    __slots__ = ("_hash", "dynamic", "generic", "kind", "name", "params")

    def __init__(self, kind: str, *params: Type, name: str = "") -> None:
        self.kind = kind
        self.params = params
        self.name = name or kind
        self.dynamic: bool = kind in ("dyn", "any")
        self.generic: bool = kind == "param" or any([param.generic for param in params])
        """Whether a type parameter occurs in it."""
        self._hash = hash((kind, self.name, params))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Type)
            and self._hash == other._hash
            and self.kind == other.kind
            and self.name == other.name
            and self.params == other.params
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(str(p) for p in self.params)})"

    __repr__ = __str__


BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
NULL = Type("null", name="null_type")
DYN = Type("dyn")
ANY = Type("any")
DURATION = Type("duration", name="google.protobuf.Duration")
TIMESTAMP = Type("timestamp", name="google.protobuf.Timestamp")
QUANTITY = Type("opaque", name="kubernetes.Quantity")
SEMVER = Type("opaque", name="kubernetes.Semver")
URL = Type("opaque", name="kubernetes.URL")
IP = Type("opaque", name="net.IP")
CIDR = Type("opaque", name="net.CIDR")
FORMAT = Type("opaque", name="kubernetes.NamedFormat")
AUTHORIZER = Type("opaque", name="kubernetes.authorization.Authorizer")
PATH_CHECK = Type("opaque", name="kubernetes.authorization.PathCheck")
GROUP_CHECK = Type("opaque", name="kubernetes.authorization.GroupCheck")
RESOURCE_CHECK = Type("opaque", name="kubernetes.authorization.ResourceCheck")
DECISION = Type("opaque", name="kubernetes.authorization.Decision")
DEVICE = Type("object", name="kubernetes.DRADevice")


def list_of(element: Type) -> Type:
    return Type("list", element)


def map_of(key: Type, value: Type) -> Type:
    return Type("map", key, value)


def type_of(inner: Type) -> Type:
    return Type("type", inner)


def optional_of(inner: Type) -> Type:
    return Type("opaque", inner, name="optional_type")


def param(name: str) -> Type:
    return Type("param", name=name)


def is_optional(type_: Type) -> bool:
    return type_.name == "optional_type" and len(type_.params) == 1
