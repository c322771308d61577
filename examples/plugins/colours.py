"""Colours: a pod stays off nodes of the colours that it forbids, and prefers nodes of the colour that it likes."""

from dray.scheduling.plugin import Depends, Plugin, Status

FORBIDDEN = "example.com/forbidden-colours"
FAVOURITE = "example.com/favourite-colour"


class Colours(Plugin):
    depends_on = Depends.NODE
    weight = 5

    def sign(self, document):
        notes = document["metadata"].get("annotations") or {}
        return notes.get(FORBIDDEN), notes.get(FAVOURITE)

    def filter(self, cycle, node):
        colour = node.labels.get("colour")
        if colour and colour in cycle.pod.annotations.get(FORBIDDEN, "").split(","):
            return Status.unschedulable(f"node(s) were {colour}", resolvable=False)

    def score(self, cycle, node):
        favourite = cycle.pod.annotations.get(FAVOURITE)
        return 100 if favourite and favourite == node.labels.get("colour") else 0
