"""Parts that the controllers of workloads share.

`own_writes` (reading what was just written), `batches` (many writes at once), `adoption` (which objects are whose),
`pod_template` (a pod made from a template), `pod_control` (writes on pods, with their events), `availability` (ready
for long enough), `removal` (which pods go first).
"""
