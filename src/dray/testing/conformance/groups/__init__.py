"""The `groups` corpus: gangs, queues and topologies, with the outcomes in the test tables of KAI, Kueue and Kubernetes.

A case has the objects of one test and what that test expects. `player` runs dray's scheduler on these objects, without
a server and in virtual time, until nothing happens any more. `kai`, `consolidation`, `kueue`, `topology` and `native`
compare the result with the expectation, each for one kind of table. `runner` picks the right one for a case.
"""
