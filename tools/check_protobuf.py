"""Compares dray's protobuf with what Kubernetes wrote: `python tools/check_protobuf.py DIRECTORY`.

DIRECTORY holds pairs of files `NAME.json` and `NAME.pb`, the same object in both forms, as `testdata/HEAD` of the
repository kubernetes/api does for every kind. The second, decoded, must give the first, and so must the first, encoded
and decoded; its bytes are those of the second unless it leaves out zeros, which Kubernetes writes in protobuf. Kinds
that Kubernetes no longer serves are left out.
"""

from __future__ import annotations

import json
import pathlib
import sys

from dray.api import wire_types
from dray.api.protobuf import envelope


def check(directory: pathlib.Path) -> bool:
    compared = same = 0
    wrong = []
    for path in sorted(directory.glob("*.pb")):
        document, data = json.loads(path.with_suffix(".json").read_text()), path.read_bytes()
        if wire_types.type_of(document.get("apiVersion", ""), document.get("kind", "")) is None:
            continue
        encoded = envelope.encode(document)
        compared += 1
        same += encoded == data
        wrong += [path.name] * (envelope.decode(data) != document or envelope.decode(encoded) != document)
    print(f"{compared} objects, {same} with the same bytes", *(f"differs: {name}" for name in wrong), sep="\n")
    return bool(compared and not wrong)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    raise SystemExit(not check(pathlib.Path(sys.argv[1])))
