"""Node lifecycle: conditions of nodes without heartbeat become Unknown, taints follow conditions, and pods are evicted.

`health` tells when a node was last heard of and what that makes of its conditions and taints; `controller`
looks after nodes, `evictions` after pods on tainted nodes and how long they stay there.

A node that never had a lease nor a heartbeat in its status has nobody who could send one: it is as its author wrote it
down, and its conditions are never called unknown.
"""
