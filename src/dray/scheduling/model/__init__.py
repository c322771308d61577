"""Values that all parts of the scheduler share: nodes, pods, groups, reasons, statuses and actions.

`node` and `pod` are changed in place when pods are added and removed. `signatures` compiles the requirements of a pod
once for all pods with the same signature (`pod_terms`, `node_terms`, `tolerations`). `reasons` and `status` tell why a
pod waits, `messages` turns them into text, and `actions` are what the scheduler wants written to the API server.

May import: `dray.api` and `dray.allocation`, and nothing else of the scheduler.
"""
