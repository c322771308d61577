"""Pod Security Standards: which pods a namespace's labels allow, as Kubernetes decides it.

policy        the labels of a namespace, read: a level and a version for each of enforce, audit and warn
checks        the table of checks: for each level, from which version on which function applies
baseline      the checks of the level baseline, one function each
restricted    the checks that the level restricted adds
violations    what a check finds, and its text
"""
