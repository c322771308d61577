"""Garbage collection by owner references: an object whose owners are all gone is deleted.

`graph` knows who owns whom, `monitors` keep it current for every kind the server serves, `collector` acts: in the
background, in the foreground (the owner waits for its dependents) or by orphaning. The server has turned the policy of
a deletion into a finalizer before; the collector carries it out and takes the finalizer away.
"""
