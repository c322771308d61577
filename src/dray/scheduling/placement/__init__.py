"""Where pods go: the algorithm for one pod, and searches for the pods of a group.

`algorithm` filters all nodes quickly and searches for devices on the best ones. `group_placement` finds places for all
pods of a group or a tree of groups (`group_search`, `group_tree_search`); `group_trial` places them one after the other
and takes each placement back.

May import: `core` and what it may import, and `plugins`.
"""
