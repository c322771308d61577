"""What Kubernetes says of its types and fields, read from the sources of lightkube-models.

Importing the models would need an HTTP client, and only OpenAPI shows what they say: their sources are read as text, a
module when it is first asked for. Without the package there are no descriptions.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_CLASS = re.compile(
    r'^class (\w+)\(DictMixin\):\n    r"""(.*?)"""\n(.*?)(?=^@dataclass|^class |\Z)', re.MULTILINE | re.DOTALL
)
_PARAMETER = re.compile(r"^ *\* \*\*(\S+)\*\* ``[^`]*`` - ?", re.MULTILINE)
_FIELD = re.compile(r"^    (\w+): '([^']*)'(.*)$", re.MULTILINE)
_JSON_NAME = re.compile(r"metadata=\{[\"']json[\"']: [\"']([^\"']+)[\"']")


class Description(NamedTuple):
    text: str = ""
    required: tuple[str, ...] = ()
    fields: dict[str, str] = {}  # noqa: RUF012 - never changed


def describe(type_name: str) -> Description:
    """Returns the descriptions of a type such as `resource_v1.DeviceRequest`: its text, required fields, and fields.

    They are read from the sources of lightkube-models, a module on first use: only `/openapi/v3` shows them, and
    importing the models would need an HTTP client. Without the package they are empty.
    """
    module, _, name = type_name.partition(".")
    return _module(module).get(name, Description())


@cache
def _module(name: str) -> dict[str, Description]:
    spec = importlib.util.find_spec("lightkube")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        source = Path(folder, "models", f"{name}.py")
        if source.is_file():
            found = _CLASS.findall(source.read_text(encoding="utf-8"))
            return {class_name: _description(doc, body) for class_name, doc, body in found}
    return {}


def _description(doc: str, body: str) -> Description:
    head, _, rest = doc.partition("**parameters**")
    parts = _PARAMETER.split(rest)
    fields = dict(zip(parts[1::2], map(_unwrapped, parts[2::2]), strict=True))
    return Description(_unwrapped(head), tuple(sorted(_required(body))), fields)


def _required(body: str) -> list[str]:
    names = []
    for name, annotation, rest in _FIELD.findall(body):
        if not annotation.startswith("Optional["):
            renamed = _JSON_NAME.search(rest)
            names.append(renamed[1] if renamed else name)
    return names


def _unwrapped(text: str) -> str:
    return " ".join(text.split())
