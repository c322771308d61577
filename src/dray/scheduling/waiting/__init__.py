"""Pods that wait: in which order they are tried, what a refused pod waits for, and what wakes it.

`queue` has the pods that are to be tried next, `waits` says what a refused pod waits for, and `reported_reasons` has
what was last reported about each pod. Nothing is decided here about nodes, devices or quota.

May import: `core` and what it may import.
"""
