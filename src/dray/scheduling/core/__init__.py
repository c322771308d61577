"""The state of the scheduler, and the framework that runs plugins.

`state` is the cluster as the scheduler knows it, `framework` runs the plugins stage by stage over a `cycle`,
`feasible_nodes` keeps which nodes could take pods of one signature. `nominations` are places that are kept for pods,
`searches` are searches for devices that go on elsewhere.

May import: `model`, `cluster`, `quota`, `groups` and the interface of plugins.
"""
