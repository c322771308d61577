"""`dray examples`: writes the examples that come with dray: manifests, and a scheduler plugin.

They are part of the package (`dray/examples`); in a checkout they stand beside `src`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

_PACKAGE: Final = Path(__file__).resolve().parent.parent
_PLACES: Final = (_PACKAGE / "examples", _PACKAGE.parent.parent / "examples")
_PARTS: Final = {
    "demo.py": "the demo: python {}",
    "demo": "manifests of the demo: dray up --node --simulate {}/machines.yaml",
    "fleet": "your own machine types, and rules for simulated pods: dray up --fleet {}/workshop.yaml",
    "alignment": "GPU, NIC and CPUs on one PCIe root: dray up --fleet {}/machines.yaml",
    "groups": "groups of pods that start together: dray up --fleet examples/fleet/racks.yaml {}/job.yaml",
    "walkthroughs": "seven ways to claim GPUs, NICs and TPUs: dray up --fleet {}/machines.yaml",
    "lab": "manifests of four machines with GPUs and NICs: dray up {}",
    "claims": "claims for the lab: dray apply -f {}",
    "cluster": "two machines and three claims: dray allocate {}",
    "deploy": "scheduler, controllers and drivers for Kubernetes, with RBAC: kubectl apply -f {}/scheduler.yaml",
    "drivers": "two small drivers in Python: python {}/serial_ports.py NODE_NAME",
    "plugins": "a scheduler plugin and its test: dray up --plugin {}/colours.py:Colours",
    "manifests": "correct manifests: dray lint {}",
    "mistakes": "manifests with mistakes: dray lint {}",
    "page": "manifests that the page offers: dray up --fleet dgx-h100=2 {}/1-one-gpu.yaml",
    "legacy": "manifests for old API versions: dray convert {}",
}


@click.command()
@click.argument("directory", default="examples", metavar="[DIR]", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite files that differ.")
def examples(directory: Path, force: bool) -> None:
    """Write the example manifests into DIR (default: examples).

    If a file exists and differs, nothing is written, unless --force is given.

    \b
    Examples:
      dray examples
      dray examples /tmp/dray-examples --force

    Exit status: 0 written, 2 they cannot be written.
    """
    source = located()
    files = sorted(path.relative_to(source) for path in source.rglob("*") if _belongs(path))
    differing = [path for path in files if _differs(source / path, directory / path)]
    if differing and not force:
        _leave(f"{directory / differing[0]} exists and differs; use --force to overwrite it, or another directory")
    try:
        for path in files:
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((source / path).read_bytes())
    except OSError as error:
        _leave(f"cannot write {error.filename or directory}: {(error.strerror or str(error)).lower()}")
    width = max(len(os.path.join(directory, name)) for name in _PARTS)
    for name, what in _PARTS.items():
        place = os.path.join(directory, name)
        click.echo(f"{place:<{width}}  {what.format(place)}")


def located() -> Path:
    """Returns the directory of the examples; exits if this installation has none."""
    place = find()
    if place is None:
        _leave("this installation has no examples")
    return place


def find() -> Path | None:
    """The directory of the examples; None where this installation has none."""
    return next((place for place in _PLACES if place.is_dir()), None)


def _belongs(path: Path) -> bool:
    return path.is_file() and path.suffix in (".yaml", ".py") and "__pycache__" not in path.parts


def _differs(source: Path, target: Path) -> bool:
    try:
        return target.read_bytes() != source.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _leave(message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(2)
