"""Endpoints of Services: the addresses of the pods that a Service selects, as Endpoints and as EndpointSlices.

`backends` finds out which pods serve and on which ports, `subsets` and `slices` decide what the objects are to be, and
the two controllers write them.
"""
