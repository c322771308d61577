"""Namespace termination: the contents are deleted, pods first, and when nothing is left, so is the namespace.

`contents` deletes and counts, `report` is what the namespace's conditions say about it, `controller` does it in turn.
"""

from dray.controllers.namespaces.controller import NamespaceController

__all__ = ["NamespaceController"]
