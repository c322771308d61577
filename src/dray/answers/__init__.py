"""Answers: what dray says about manifests and clusters, for programs and for the command line.

`explain`, `plan`, `lint`, `allocate`, `devices`, `queue` and `topology` have one question each. `cluster` says which
cluster is asked: a server, a snapshot, a fleet, or objects. An answer is a value with a text and a document; nothing
here prints, and nothing is written to a cluster. `import dray` offers the functions: docs/python.md.

`manifests` reads files, `explaining` and `linting` find reasons, and `views` has the tables of devices and queues.
"""
