"""Eviction of pods from devices with a NoExecute taint, and the status of DeviceTaintRules.

`evictions` decides when which claim ends a pod and why, `tainted` and `rules` know the taints, `lookup` which claims a
pod uses, `rule_status` tells how far a rule has come. `controller` puts them together and ends the pods.
"""
