"""Puts objects on a server."""

from dray.testing.cluster import in_place, kind_of


async def make(client, document):
    """With its status. A node is ready at once: nobody else says that it is."""
    kind = kind_of(document["kind"], document["apiVersion"])
    made = await client.create(kind, in_place(document, kind))
    name, namespace = made["metadata"]["name"], made["metadata"].get("namespace", "")
    if "status" in document:
        # Not an update: controllers may have written to it already.
        status = {"status": document["status"]}
        made = await client.patch(kind, name, status, namespace=namespace, subresource="status")
    if document["kind"] == "Node":
        taints = {"spec": {"taints": document["spec"].get("taints")}}
        made = await client.patch(kind, name, taints)
    return made
