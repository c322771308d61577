"""Fleets: machine types as data, and simulated nodes made from them.

`machine_type` has the structs that files are read into, `documents` the reader, `rules` what a file must keep to,
`catalogue` the machine types that come with dray and `choice` what a command line asks for. `machine` makes the nodes
and devices of one machine. `simulation` keeps nodes, slices and pods alive on any API server: `pod_lives` decides what
becomes of a pod, `outages` when devices and nodes fail, `stages` by which rules. `importing` describes a live cluster.
"""
