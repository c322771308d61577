"""Reconcilers: each makes one thing true, from any Kubernetes API server to the same one.

`environment` is what they are given, `registry` their names.
"""
