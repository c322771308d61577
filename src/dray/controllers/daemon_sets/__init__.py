"""The DaemonSet controller.

`template` (a pod of a DaemonSet for a node), `placement` (on which nodes it runs), `daemons` (the pods of a DaemonSet,
by node), `plan` (which pods to make and delete so that each node has one), `rollout` (which to replace next), `status`
(the counts), `failures` (how long to wait for a node where pods fail), `controller` (the loop).
"""
