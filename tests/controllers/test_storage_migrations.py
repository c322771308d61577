"""StorageVersionMigrations: stored objects are written again, and definitions forget old versions."""

import msgspec

from dray.api.objects import is_true
from dray.store.memory import MemoryStore
from dray.testing.cluster import LocalCluster, kind_of
from tests.controllers.jobs import Clock

MIGRATION = {"apiVersion": "storagemigration.k8s.io/v1", "kind": "StorageVersionMigration", "metadata": {"name": "m"}}
GROUP = "example.com"


def migration(group, resource):
    return {**MIGRATION, "spec": {"resource": {"group": group, "resource": resource}}}


def definition(stored):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == stored, "schema": schema} for name in ("v1", "v2")]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": versions,
        },
    }


async def done(cluster, condition="Succeeded"):
    async def is_done():
        found = await cluster.get("StorageVersionMigration", "m")
        return found if found is not None and is_true(found, condition) else None

    return await cluster.eventually(is_done)


async def test_custom_objects_are_stored_in_the_new_version():
    async with LocalCluster(controllers=["storage-version-migrator"]) as cluster:
        await cluster.create(definition("v1"))
        thing = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "t"}}
        await cluster.client.request("POST", f"/apis/{GROUP}/v1/things", body=thing)
        found = await cluster.get("CustomResourceDefinition", f"things.{GROUP}")
        found["spec"] = definition("v2")["spec"]
        await cluster.client.update(kind_of("CustomResourceDefinition"), found)
        stored = cluster.server.context.store
        key = f"/{GROUP}/things/t"
        assert msgspec.json.decode(stored.get(key).value)["apiVersion"] == f"{GROUP}/v1"
        await cluster.create(migration(GROUP, "things"))
        finished = await done(cluster)
        assert msgspec.json.decode(stored.get(key).value)["apiVersion"] == f"{GROUP}/v2"
        after = await cluster.get("CustomResourceDefinition", f"things.{GROUP}")
        assert after["status"]["storedVersions"] == ["v2"]
        told = {each["type"]: each["message"] for each in finished["status"]["conditions"]}
        assert told["Running"] == "The migration is running, 1 objects verified migrated"


async def test_what_nobody_serves_cannot_be_migrated():
    time = Clock()
    async with LocalCluster(controllers=["storage-version-migrator"], time=time) as cluster:
        await cluster.create(migration("", "nothings"))
        time.advance(120)
        found = await done(cluster, "Failed")
        assert found["status"]["conditions"][-1]["message"] == "unable to obtain GVR from discovery"


async def test_a_version_with_thousands_of_digits_fails_the_migration():
    store = MemoryStore()
    async with LocalCluster(store=store) as cluster:
        await cluster.create(migration("", "configmaps"))
        status = {"resourceVersion": "9" * 4301}
        await cluster.client.patch(kind_of("StorageVersionMigration"), "m", {"status": status}, subresource="status")
        controllers = ["storage-version-migrator"]
        async with LocalCluster(store=store, controllers=controllers) as other:
            found = await done(other, "Failed")
    assert "status.resourceVersion" in found["status"]["conditions"][-1]["message"]
