"""Plugins that only score nodes, one for each policy that is not Kubernetes' own: `pack`, `spread`, `first-fit`.

`device_packing` has `pack` and `spread`, and asks `partition_packing` where devices are partitions with counters.

May import: as the package above.
"""
