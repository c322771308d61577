"""Values that all parts of the scheduler share: nodes, pods, groups, reasons, statuses and actions.

`node` and `pod` are changed in place as pods come and go; `signatures` compiles the requirements of a pod once for all
pods that are alike (`pod_terms`, `node_terms`, `tolerations`). `reasons` and `status` say why a pod waits, `messages`
turns them into text, and `actions` are what the scheduler wants written.

May import: `dray.api` and `dray.allocation`, and nothing else of the scheduler.
"""
