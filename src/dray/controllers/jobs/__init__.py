"""The Job controller.

The parts, from the ground up: `indexes` (sets of completion indexes), `pods` (what a pod of a Job says), `spec` (of a
Job, with its defaults), `policies` (pod failure and success), `view` (a Job and its pods at one moment), `outcome`
(whether it is over), `plan` (which pods to make or delete, and when), `accounting` (how pods that ended
get into the status, each once), `template` (a pod made from a Job),
`actions` (writes on pods), `groups` (the PodGroup of a Job), `membership` (which pods are a Job's),
`status_writer` (the status), `controller` (the loop).
"""
