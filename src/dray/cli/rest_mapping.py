"""Mapping of manifests to resources of a server: kind, namespace and name, and messages where there is none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from dray.answers.advice import advice_on
from dray.answers.linting.hints import hint_for, without_source
from dray.answers.manifests.reading import Manifest
from dray.answers.one_line import one_line
from dray.api.catalogue import RESOURCE_GROUP, KindVersion, find, split_api_version
from dray.api.conversion import wrong_types
from dray.api.errors import ErrorType, FieldError
from dray.api.intake import check
from dray.cli.cluster import Cluster
from dray.cli.resource_names import is_name

if TYPE_CHECKING:
    from dray.client.discovery import ServedResource
    from dray.client.errors import ApiError

DEFINITION: Final = "CustomResourceDefinition"
FOUNDATIONS: Final = ("Namespace", DEFINITION)
"""Kinds of objects that others need to exist."""

_PAUSE: Final = 0.2
_UNKNOWN_FIELD: Final = ("unknown field", "field not declared in schema")
"""Words in the message of a server about a field that the kind does not have."""


class Misplaced(Exception):
    """A manifest with no place on the server; `field` is what keeps it from having one."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class UnknownKind(Misplaced):
    """The server does not serve the kind."""


class Target(NamedTuple):
    kind: ServedResource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.title}/{self.name}"


async def locate(cluster: Cluster, manifest: Manifest, *, patience: float = 0.0) -> Target:
    """Raises Misplaced. A kind that is not served yet may become so for as long as `patience`, in seconds."""
    kind = await _served(cluster, manifest, patience)
    if not is_name(manifest.name):
        problem = f"{manifest.name!r} cannot be a name" if manifest.name else "a name is required"
        raise Misplaced("metadata.name", problem)
    if not kind.namespaced:
        return Target(kind, "", manifest.name)
    namespace = manifest.namespace or cluster.namespace
    if not is_name(namespace):
        raise Misplaced("metadata.namespace", f"{namespace!r} cannot be a namespace")
    if cluster.insists and namespace != cluster.namespace:
        raise Misplaced(
            "metadata.namespace",
            f'the namespace "{namespace}" is not the "{cluster.namespace}" of the command line; '
            f"leave --namespace out, or give --namespace {namespace}",
        )
    return Target(kind, namespace, manifest.name)


async def _served(cluster: Cluster, manifest: Manifest, patience: float) -> ServedResource:
    for field, value in (("apiVersion", manifest.api_version), ("kind", manifest.kind)):
        if not value:
            raise Misplaced(field, f"{field} is required")
    catalog = await cluster.catalog()
    while (kind := catalog.find(manifest.api_version, manifest.kind)) is None:
        if patience <= 0:
            problem = f'the server has no kind "{manifest.kind}" in version "{manifest.api_version}"'
            raise UnknownKind("kind", f"{problem}; {_instead(manifest)}")
        await asyncio.sleep(_PAUSE)
        patience -= _PAUSE
        catalog = await cluster.catalog(anew=True)
    return kind


def _instead(manifest: Manifest) -> str:
    """Returns advice for a kind that is not served."""
    group, _ = split_api_version(manifest.api_version)
    if group == RESOURCE_GROUP:
        return "`dray convert` rewrites old versions"
    if "." not in group or group.endswith(".k8s.io"):
        return "dray's own server does not serve all kinds of Kubernetes: docs/apiserver.md lists the served ones"
    if manifest.kind == "ComputeDomain":
        return "dray does not create channels and IMEX daemons for it: install NVIDIA's own driver"
    return "apply its CustomResourceDefinition first"


def complain_about(manifest: Manifest, error: Exception) -> None:
    """A line for everything that is wrong, at the place in the file that it is about."""
    from dray.client.errors import ApiError

    if isinstance(error, ApiError):
        for field, message in _unreadable(manifest, error) or _causes(manifest, error):
            _say(manifest, field, message, advice_on(error))
    else:
        _say(manifest, getattr(error, "field", ""), str(error))


def _unreadable(manifest: Manifest, error: ApiError) -> list[tuple[str, str]]:
    """Fields that are unknown or of a wrong type. A server that cannot read a body does not say where they are."""
    unknown = any(phrase in str(error) for phrase in _UNKNOWN_FIELD)
    if error.status != 400 and not unknown:
        return []
    entry = find(manifest.api_version, manifest.kind)
    problems = list(wrong_types(manifest.document))
    if unknown:
        problems += [problem for problem in check(manifest.document) if problem.type is ErrorType.UNKNOWN_FIELD]
    found = [(problem.field, problem.message, hint_for(problem, entry)) for problem in problems]
    return [(field, f"{field}: {message}{f' ({hint})' if hint else ''}") for field, message, hint in found]


def _causes(manifest: Manifest, error: ApiError) -> list[tuple[str, str]]:
    from dray.client.errors import Conflict

    if isinstance(error, Conflict) and error.causes:
        advice = "; --force-conflicts takes the field over"
        return [(field, f"{field}: {message}{advice}") for field, _, message in error.causes]
    if error.is_invalid and error.causes:
        entry = find(manifest.api_version, manifest.kind)
        return [(field, _with_hint(field, reason, message, entry)) for field, reason, message in error.causes]
    return [("", str(error))]


def _with_hint(field: str, reason: str, message: str, entry: KindVersion | None) -> str:
    """Returns the message of the server about a field, with a hint if there is one."""
    kinds = [type_ for type_ in ErrorType if type_.value == reason]
    hint = hint_for(FieldError(kinds[0], field, message), entry) if kinds else ""
    text = f"{field}: {without_source(message)}"
    return f"{text} ({hint})" if hint else text


def _say(manifest: Manifest, field: str, message: str, advice: str = "") -> None:
    place = manifest.place.find(field)
    where = f"{manifest.source}:{place.line}:{place.column}"
    line = ": ".join(part for part in (where, "error", manifest.title, one_line(message)) if part)
    click.echo(f"{line} ({advice})" if advice else line, err=True)
