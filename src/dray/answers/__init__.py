"""Answers to questions about manifests and clusters, for programs and for the command line.

`explain`, `plan`, `lint`, `allocate`, `devices`, `queue` and `topology` answer one question each. `cluster.Cluster`
reads a server, a snapshot, a fleet, or objects. An answer has a text and a document. Nothing here prints or writes to a
cluster. `import dray` offers the functions; docs/python.md describes them.

`manifests` reads files, `explaining` and `linting` find reasons, and `views` has the tables of devices and queues.
"""
