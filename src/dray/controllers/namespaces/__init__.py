"""Namespace termination: the contents are deleted, pods first, and when nothing is left, so is the namespace.

`contents` deletes, counts and says in the namespace's conditions what is left; `controller` does it in turn.
"""
