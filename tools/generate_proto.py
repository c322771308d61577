"""Writes the messages of src/dray/_proto/kubelet.proto in Python beside it, or elsewhere if a directory is given.

The services need no code of their own: `dray._proto.services` reads their descriptors.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

SOURCE = Path(__file__).resolve().parent.parent / "src"


def generate(target: Path) -> None:
    source = SOURCE / "dray/_proto/kubelet.proto"
    well_known = files("grpc_tools") / "_proto"
    outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi")]
    status = protoc.main(["protoc", f"-I{SOURCE}", f"-I{well_known}", *outputs, str(source)])
    if status:
        raise SystemExit(f"protoc ends with status {status}")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)
