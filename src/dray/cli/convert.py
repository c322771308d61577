"""`dray convert`: manifests in another version of resource.k8s.io.

Objects go to standard output, notes about what could not be carried over to standard error. All or nothing: if one
object cannot be converted, none is printed, so that a pipe into kubectl never applies half a set.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from dray.answers.linting.hints import hint_for
from dray.answers.manifests.claim_specs import group_name, pod_spec
from dray.answers.manifests.reading import Manifest, read
from dray.answers.one_line import one_line
from dray.api import alpha2, alpha3
from dray.api.catalogue import RESOURCE_GROUP, find
from dray.api.conversion import ConversionError, oddities, unreadable
from dray.api.conversion import convert as convert_version
from dray.api.errors import ErrorType
from dray.cli.claim_node_selectors import ClaimNodeSelectors, key_of
from dray.cli.output_formats import manifests, output_option

_VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_FIRST_ALPHAS: Final = (alpha2.API_VERSION, "resource.k8s.io/v1alpha1")
_INSTALLED: Final = "the driver installs a class of this name; its selectors are used, so both classes are the same"

Converted = tuple[list[dict[str, Any]], Sequence[alpha2.Note]]


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--to", "version", type=click.Choice(_VERSIONS), default="v1", show_default=True, help="Version to write."
)
@output_option("yaml", "json")
def convert(files: tuple[str, ...], version: str, output: str) -> None:
    """Rewrite manifests for another version of resource.k8s.io.

    FILE is a YAML or JSON file, a directory, or - for standard input. The removed versions v1alpha1, v1alpha2 and
    v1alpha3 can be read too. If the new version cannot express something, a note on standard error says so, and what to
    do instead. Give all files that belong together in one call, so that parameters are found.

    Objects of other groups are printed unchanged, except pods with claims under "source". Comments are lost, lists are
    printed as single objects, and YAML aliases are expanded.

    \b
    Examples:
      dray convert examples/legacy
      dray convert claim.yaml --to v1beta1 -o json

    Exit status: 0 converted, 1 something cannot be converted (nothing is printed), 2 a file cannot be read.
    """
    reading = read(files)
    for problem in reading.problems:
        click.echo(one_line(str(problem)), err=True)
    if reading.problems:
        sys.exit(2)
    objects, failed = _convert_all(reading.manifests, version)
    if failed:
        sys.exit(1)
    if objects:
        click.echo(manifests(objects, output), nl=False)


def _convert_all(manifests: list[Manifest], version: str) -> tuple[list[dict[str, Any]], bool]:
    beside = [manifest.document for manifest in manifests]
    selectors = ClaimNodeSelectors(beside)
    objects: list[dict[str, Any]] = []
    failed = False
    for manifest in manifests:
        try:
            converted, notes = convert_manifest(manifest, version, beside, selectors)
        except ConversionError as problem:
            _complain(manifest, problem)
            failed = True
            continue
        objects += converted
        for note in notes:
            _say(manifest, "note", note.field, note.message)
    return objects, failed


def convert_manifest(
    manifest: Manifest, version: str, beside: list[dict[str, Any]], selectors: ClaimNodeSelectors | None = None
) -> Converted:
    """The objects that a manifest comes to, and what there is to say about them."""
    document = manifest.document
    selectors = selectors or ClaimNodeSelectors(beside)
    if group_name(document) != RESOURCE_GROUP:
        return _with_modern_claims(document, selectors)
    if manifest.api_version in _FIRST_ALPHAS:
        objects, notes = alpha2.to_v1(document, beside=beside, selected=key_of(document) in selectors.moved)
        chosen = [_as_installed(obj) for obj in objects]
        changed = [alpha2.Note("metadata.name", _INSTALLED)] if chosen != objects else []
        return [convert_version(each, version) for each in chosen], [*notes, *changed]
    if manifest.api_version == alpha3.API_VERSION and manifest.kind in alpha3.KINDS:
        converted, notes = alpha3.to_v1(document)
        return [convert_version(converted, version)], notes
    if not manifest.kind:
        raise ConversionError("kind: must be a non-empty string")
    entry = find(manifest.api_version, manifest.kind)
    if entry is not None and len(entry.entry.versions) == 1:
        return [document], ()
    odd = oddities(document)
    if wrong := [error for error in odd if error.type is not ErrorType.UNKNOWN_FIELD]:
        raise unreadable(wrong)
    kept = [alpha2.Note(error.field, f"{error.detail}, kept unchanged") for error in odd]
    return [convert_version(document, version)], kept


def _as_installed(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the class as its driver installs it, if the driver has one of this name: it selects less."""
    from dray.drivers.devices.classes import CLASSES, device_classes

    if document["kind"] != "DeviceClass":
        return document
    installed = {class_["metadata"]["name"]: class_ for class_ in device_classes(CLASSES)}
    own = installed.get(document["metadata"].get("name"))
    if own is None:
        return document
    return {**document, "spec": {**document["spec"], "selectors": own["spec"]["selectors"]}}


def _with_modern_claims(document: dict[str, Any], selectors: ClaimNodeSelectors) -> Converted:
    spec = pod_spec(document)
    if spec is None:
        return [document], ()
    modern, notes = alpha2.without_source(spec.value, spec.path)
    modern, kept = selectors.given(document, modern, spec.path)
    if modern is spec.value:
        return [document], kept
    changed = copy.deepcopy(document)
    target = pod_spec(changed)
    assert target is not None
    target.value.update(modern)
    return [changed], [*notes, *kept]


def _complain(manifest: Manifest, error: ConversionError) -> None:
    entry = find(manifest.api_version, manifest.kind)
    for problem in error.problems:
        hint = hint_for(problem, entry)
        _say(manifest, "error", problem.field, f"{problem.message}{f' ({hint})' if hint else ''}")
    if not error.problems:
        _say(manifest, "error", "", str(error))


def _say(manifest: Manifest, severity: str, field: str, message: str) -> None:
    place = manifest.place.find(field or "apiVersion")
    where = f"{manifest.source}:{place.line}:{place.column}"
    parts = (where, severity, manifest.title, field, message)
    click.echo(one_line(": ".join(part for part in parts if part)), err=True)
