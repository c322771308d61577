"""Bootstrap objects that every cluster has: namespaces, roles, priority classes."""

from __future__ import annotations

from dray.api import root_certificate
from dray.api.intake import Place
from dray.api.objects import Object
from dray.api.root_certificate import KEY
from dray.api.validation.priority_classes import SYSTEM_CLASSES
from dray.server import bootstrap_objects, creation, documents, status, updates
from dray.server.authorization import ADMIN
from dray.server.calls import Write
from dray.server.context import Context
from dray.server.parameters import WriteOptions
from dray.server.security import certificates
from dray.server.security.authority import AUTHORITY_LIFETIME, utc_now
from dray.server.security.builtin_roles import bootstrap as built_in_roles
from dray.server.security.users import DEVICE_DRIVER, SYSTEM_NAMESPACE

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_LEGACY_TOKENS = "kube-apiserver-legacy-service-account-token-tracking"
_BY = WriteOptions(field_manager="dray-apiserver")


async def bootstrap(context: Context) -> None:
    """Creates missing bootstrap objects; keeps changes that users made to existing ones."""
    for name in NAMESPACES:
        await create(context, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    context.health.finish("start-system-namespaces-controller")
    for namespace, name in (*((namespace, "default") for namespace in NAMESPACES), (SYSTEM_NAMESPACE, DEVICE_DRIVER)):
        metadata = {"name": name, "namespace": namespace}
        await create(context, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    await _publish_root(context)
    # A kube-controller-manager reads from which day on the use of legacy tokens is noted, and deletes tokens that were
    # not used for a year. The use is not noted here, so each start begins anew.
    await publish(context, SYSTEM_NAMESPACE, _LEGACY_TOKENS, {"since": context.now()[:10]})
    for name, value in SYSTEM_CLASSES.items():
        document = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        await create(context, {**document, "value": value, "description": "Used by the system itself."})
    context.health.finish("scheduling/bootstrap-system-priority-classes")
    for document in bootstrap_objects.flow_control():
        await create(context, document)
    context.health.finish("priority-and-fairness-config-producer", "start-cluster-authentication-info-controller")
    existing = [
        documents.decode(record.value)
        for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
        for record in context.store.list(f"/rbac.authorization.k8s.io/{plural}/").records
    ]
    for role in built_in_roles(existing):
        await _put(context, role)
    context.health.finish("rbac/bootstrap-roles")


async def _publish_root(context: Context) -> None:
    """Publishes the cluster's root certificate. Over plain HTTP it is created once, because pods wait for it."""
    data = {KEY: context.security.node_authority.certificate.decode()}
    place = (root_certificate.NAMESPACE, root_certificate.NAME)
    if context.security.authority is not None:
        await publish(context, *place, data)
        # Aggregated API servers read here which authority signs the certificates of clients.
        clients = {"client-ca-file": data[KEY], **_front_proxy()}
        await publish(context, SYSTEM_NAMESPACE, "extension-apiserver-authentication", clients)
    else:
        await create(context, _config_map(*place, data))


def _front_proxy() -> dict[str, str]:
    """Returns the front-proxy settings of extension-apiserver-authentication, with an authority that signs nothing.

    dray passes no requests on to other API servers. Programs of Kubernetes want an authority all the same, so each
    start makes one and throws its key away.
    """
    key = certificates.new_key()
    authority = certificates.make_authority(key, "dray-front-proxy", now=utc_now(), lifetime=AUTHORITY_LIFETIME)
    return {
        "requestheader-client-ca-file": certificates.encode_certificate(authority).decode(),
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }


async def create(context: Context, document: Object) -> None:
    """Creates the object unless it exists."""
    resource = context.registry.of_kind(document["apiVersion"], document["kind"])
    assert resource is not None
    metadata = document["metadata"]
    namespace = metadata.get("namespace", "")
    if context.store.get(resource.key(namespace, metadata["name"])) is None:
        await creation.create(Write(context, resource, Place(namespace), _BY, ADMIN, []), document)


def _config_map(namespace: str, name: str, data: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


async def publish(context: Context, namespace: str, name: str, data: dict[str, str]) -> None:
    """Writes the data into a ConfigMap; its other keys stay."""
    await create(context, _config_map(namespace, name, data))
    resource = context.registry.of_kind("v1", "ConfigMap")
    assert resource is not None

    def change(found: Object) -> None:
        found["data"] = {**(found.get("data") or {}), **data}

    await updates.modify(context, resource, Place(namespace, name), change)


async def _put(context: Context, document: Object) -> None:
    resource = context.registry.of_kind(document["apiVersion"], document["kind"])
    assert resource is not None
    try:
        await create(context, document)
        metadata = document["metadata"]
        place = Place(metadata.get("namespace", ""), metadata["name"])
        await updates.update(Write(context, resource, place, _BY, ADMIN, []), lambda old: document)
    except status.ApiError as error:
        raise RuntimeError(f"{document['kind']} {document['metadata']['name']}: {error.message}") from error
