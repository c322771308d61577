"""The state of the scheduler, and the framework that runs plugins.

`state` is the cluster as the scheduler knows it, `framework` runs the plugins stage by stage over a `cycle`,
`feasible_nodes` keeps the nodes on which pods of one signature fit. `nominations` reserves nodes and devices for pods
that wait for evictions, and `searches` keeps searches for devices that continue in the background.

May import: `model`, `cluster`, `quota`, `groups` and the interface of plugins.
"""
