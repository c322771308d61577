"""Objects as YAML or JSON, in a form that kubectl reads back as the same objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml

from dray.yaml.scalars import is_text

_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: Any, value: str) -> Any:
    """Blocks for several lines; quotes for what kubectl would read as a number or a boolean."""
    style = "|" if "\n" in value else None if is_text(value) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent_text)


def as_yaml(objects: Sequence[dict[str, Any] | list[Any]]) -> str:
    return yaml.dump_all(
        objects,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=len(objects) > 1,
        default_flow_style=False,
        width=1_000_000,
    )


def as_json(objects: Sequence[dict[str, Any]]) -> str:
    """One object as itself, several as a List, which kubectl takes in one piece."""
    whole = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
