"""The ServiceAccount plug-in: a pod's service account must exist, and a pod gets a token of it.

The token comes with the certificate of the API server and the name of the namespace in a projected volume, mounted in
every container that mounts nothing else there, unless the pod or its account says otherwise. Mirror pods are left
alone: their nodes run them as a file says. The account `default` of a new namespace is made by a controller, which a
pod that is created right after its namespace waits for.
"""

from __future__ import annotations

import asyncio
from typing import Final

from dray.api import root_certificate
from dray.api.objects import Object, annotations_of, mapping, mappings
from dray.api.pods import MIRROR_ANNOTATION
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.context import Context
from dray.server.resources import Resource, key_prefix

NAME: Final = "ServiceAccount"
MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_ACCOUNTS: Final = key_prefix("", "serviceaccounts")
_DEFAULT: Final = "default"
_VOLUME: Final = "kube-api-access-"
# An hour and some seconds, to tell automatic tokens from tokens that were requested for an hour.
_SECONDS: Final = 3607
_TRIES: Final = 10
_PAUSE: Final = 0.1
_NAMESPACE: Final = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
_CERTIFICATE: Final = {"key": root_certificate.KEY, "path": "ca.crt"}
# Shared by all pods: nothing may change it.
_PROJECTED: Final[Object] = {
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": _SECONDS, "path": "token"}},
        {"configMap": {"name": root_certificate.NAME, "items": [_CERTIFICATE]}},
        {"downwardAPI": {"items": [_NAMESPACE]}},
    ],
    "defaultMode": 0o644,
}


async def await_references(context: Context, resource: Resource, namespace: str, document: Object) -> None:
    """Waits up to a second for the controller to create the account of a new namespace."""
    if resource.kind != "Pod" or resource.group or NAME in context.disabled_plugins:
        return
    spec = mapping(mapping(document).get("spec"))
    if (spec.get("serviceAccountName") or spec.get("serviceAccount") or _DEFAULT) != _DEFAULT:
        return
    for _ in range(_TRIES):
        if context.store.get(_key(namespace, _DEFAULT)) is not None or context.namespace(namespace) is None:
            return
        await asyncio.sleep(_PAUSE)


def admit_pod(attributes: Attributes) -> None:
    pod, context = attributes.obj, attributes.context
    if NAME in context.disabled_plugins or MIRROR_ANNOTATION in annotations_of(pod):
        return
    spec, namespace = pod["spec"], attributes.namespace
    name = spec["serviceAccountName"]
    record = context.store.get(_key(namespace, name))
    if record is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise attributes.forbid(why)
    account = documents.decode(record.value)
    if not spec.get("imagePullSecrets") and (secrets := account.get("imagePullSecrets")):
        spec["imagePullSecrets"] = secrets
    if _is_automatic(spec, account):
        _mount_token(spec, context)


def _key(namespace: str, name: str) -> str:
    return f"{_ACCOUNTS}{namespace}/{name}"


def _is_automatic(spec: Object, account: Object) -> bool:
    """Returns True if the token is mounted automatically: as the pod says, else its account, else by default."""
    answers = (holder.get("automountServiceAccountToken") for holder in (spec, account))
    return next((answer for answer in answers if answer is not None), True)


def _mount_token(spec: Object, context: Context) -> None:
    volumes = mappings(spec.get("volumes"))
    there = next((str(volume["name"]) for volume in volumes if str(volume["name"]).startswith(_VOLUME)), "")
    name = there or _VOLUME + context.new_suffix()
    containers = (*mappings(spec.get("initContainers")), *mappings(spec.get("containers")))
    without = [container for container in containers if not _has_mount(container)]
    for container in without:
        mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
        container["volumeMounts"] = [*mappings(container.get("volumeMounts")), mount]
    if without and not there:
        spec["volumes"] = [*volumes, {"name": name, "projected": _PROJECTED}]


def _has_mount(container: Object) -> bool:
    return any(mount.get("mountPath") == MOUNT_PATH for mount in mappings(container.get("volumeMounts")))
