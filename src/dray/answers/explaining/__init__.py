"""Explanations: why a pod, claim, group or workload has its devices, or why it waits."""
