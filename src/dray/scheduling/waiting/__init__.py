"""Pods that wait: in which order they are tried, what a refused pod waits for, and which events wake it.

`queue` has the pods that are to be tried next, by their `arrivals`. `waits` says what a refused pod waits for; refused
pods are filed by it in `wait_entries`, or by single objects in `object_waits`, and `timers` ring for them.
`queued_pods` are the records of both. `events` go to the `wait_index`, which knows whom they may help.
`reported_reasons` has what was last reported about each pod. Nothing is decided here about nodes, devices or quota.

May import: `core` and what it may import.
"""
