"""Waiting pods: the order in which they are tried, what a refused pod waits for, and which events wake it.

`queue` has the pods to be tried, in their order. `queued_pods` has the records of pods and of what they wait for.
`wait_entries` keeps refused pods by what they wait for, with timers, and `quota_waits` pods that wait for quota.
`wait_index` has all of them; it receives all events that may help
waiting pods, and wakes these pods. `reported_reasons` has what was last reported about each pod. Nothing is decided
here about nodes, devices or quota.

May import: `core` and what it may import.
"""
