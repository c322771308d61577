"""Wire fields: the generated table of the types of the API, as `wire_types` reads it.

tools/generate_wire_types.py writes the table to wire_fields.txt. Its first rows give for an apiVersion the module its
kinds are in; those after the empty line give for a type its fields, in the notation of wire_types. A row is a name, a
space and what it stands for. The file is a part of this module in another form: it is read once, when that is imported.
"""

from __future__ import annotations

import pkgutil
from typing import Final


def _read(rows: str) -> dict[str, str]:
    return {name: value for name, _, value in (row.partition(" ") for row in rows.splitlines())}


# Not by importlib.resources, which takes 10 ms to import.
_TABLE: Final = pkgutil.get_data("dray.api", "wire_fields.txt")
assert _TABLE is not None, "dray is not installed whole: dray/api/wire_fields.txt is missing"
_VERSIONS, _, _TYPES = _TABLE.decode().partition("\n\n")
# By apiVersion: the module its kinds are in.
MODULES: Final = _read(_VERSIONS)
# By type: its fields.
FIELDS: Final = _read(_TYPES)
