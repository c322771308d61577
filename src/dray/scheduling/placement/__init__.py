"""Where pods are placed: the algorithm for one pod, and the search for nodes for all pods of a group.

`algorithm` filters all nodes quickly and searches for devices on the best ones. `group_placement` places a tree of
groups: `group_branches` describes the tree with its pods, `group_tree_search` chooses domains for its groups,
`group_search` nodes for the pods of one group, and `packing` numbers of pods per node. `group_trial` assumes the pods
one by one, and can undo that.

May import: `core` and what it may import, and `plugins`.
"""
