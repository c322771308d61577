"""Puts objects on a server."""

from dray.testing.cluster import in_place, kind_of


async def make(client, document):
    """With its status. A node is ready at once: nobody else says that it is."""
    kind = kind_of(document["kind"], document["apiVersion"])
    made = await client.create(kind, in_place(document, kind))
    if "status" in document:
        made = await client.update_status(kind, {**made, "status": document["status"]})
    if document["kind"] == "Node":
        taints = {"spec": {"taints": document["spec"].get("taints")}}
        made = await client.patch(kind, document["metadata"]["name"], taints)
    return made
