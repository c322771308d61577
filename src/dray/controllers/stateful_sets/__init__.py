"""The StatefulSet controller.

`identity` (names, labels and volumes of the pod with an ordinal), `replicas` (a StatefulSet and its pods at one
moment), `plan` (which pods to make, delete and replace next), `status` (the counts and revisions), `claims` (the volume
claims of its pods), `controller` (the loop).
"""
