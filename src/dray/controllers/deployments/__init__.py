"""The Deployment controller.

The parts, from the ground up: `revisions` (which ReplicaSet is the newest, numbers and annotations of the others),
`template` (a ReplicaSet made from a Deployment), `rolling` (sizes of ReplicaSets), `conditions` and `status` (what the
status says, and whether the roll-out makes progress), `replica_set_control` (writes on ReplicaSets, with their events),
`controller` (the loop).
"""
