"""The ReplicaSet controller, which serves ReplicationControllers too.

The parts: `replicated` (the two kinds, and what differs between them), `plan` (how many pods to make, which to delete),
`status` (what the status says), `controller` (the loop).
"""
