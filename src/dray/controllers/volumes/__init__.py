"""Volumes: claims are bound to volumes, volumes are made for claims, and neither goes while it is in use.

`matching` finds the volume for a claim, `decisions` says what is to become of a claim or a volume, `host_path` makes
volumes that are directories of a node, and the controllers do it.
"""
