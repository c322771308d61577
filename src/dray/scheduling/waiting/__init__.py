"""Waiting pods: the order in which they are tried, what a refused pod waits for, and which events wake it.

`queue` has the pods to be tried, in the order of `arrivals`. `waits` describes what a refused pod waits for.
`wait_entries` and `object_waits` keep refused pods by what they wait for, and `timers` retry them after a time.
`queued_pods` has the records of pods and entries. `wait_index` receives `events` and wakes the pods that they may help.
`reported_reasons` has what was last reported about each pod. Nothing is decided here about nodes, devices or quota.

May import: `core` and what it may import.
"""
