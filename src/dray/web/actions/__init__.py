"""Changes that viewers make on the page: taint or release a device, cordon a node, delete a pod or claim, set a quota.

`calls` answers which actions a viewer may take on a target, by access reviews, and takes one. Each is tried with a dry
run first, whose answer the viewer sees before they confirm. Everything is done with the viewer's own client: the API
server decides, whatever the page offered.
"""
