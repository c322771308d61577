"""Groups of pods that start together: one model, and a module for each API that describes groups.

`front_ends` lists the APIs. Each has a module, which declares a `GroupApi` and translates its objects into
`model.group`. `groups` keeps them, `members` counts the pods of each group, `forest` keeps groups of groups, and
`unknown_kinds` holds back pods that name an object of a kind that the server may not have.

May import: `model`, `cluster`, and from `quota` the labels and objects of its queue systems.
"""
